"""Sliding windows and the kernels that take them."""

from dataclasses import replace

from service.estimator.estimate import estimate
from service.estimator.layout import Layout
from service.estimator.workload import Attention, Checkpointing, TrainWorkload
from tests.builders import a_device, a_model, a_training

WORKLOAD = a_training(
    precision="bf16", sequence_length=256, activation_checkpointing=Checkpointing.FULL, attention=Attention.FLASH
)


def _allocated(window: int | None, workload: TrainWorkload = WORKLOAD) -> int:
    model = a_model(sliding_window=window)
    return estimate(model, workload, layout=Layout(), device=a_device()).allocated_bytes


def test_flash_takes_a_window_as_a_number() -> None:
    """The kernel asked for by name needs no mask for a window, as flash-attn's does not; what SDPA chooses does."""
    chosen = replace(WORKLOAD, attention=Attention.SDPA)

    assert _allocated(128) == _allocated(None)
    assert _allocated(128, chosen) > _allocated(None, chosen)


def test_flash_takes_no_padding_mask() -> None:
    """A mask of padding leaves the memory-efficient kernel, window or not."""
    padded = replace(WORKLOAD, padding_mask=True)

    assert _allocated(128, padded) > _allocated(128)
    assert _allocated(128, padded) == _allocated(None, padded)

"""Times of micro batches whose sequences share one row."""

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.speed.throughput import WorkCache, make_step_timer
from service.estimator.speed.work import count_forward_work
from service.estimator.values.batches import SequencePacking
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention
from tests.builders import a_model, a_training

_H100 = resolve_gpu("H100-SXM5-80GB").to_device()
_LENGTH = 2048
_WORKS = WorkCache()


def _time(attention: Attention, packing: SequencePacking) -> float:
    workload = a_training(
        sequence_length=_LENGTH, micro_batch_size=8, attention=attention, packing=packing
    )
    times = make_step_timer(a_model(), workload, _H100, _WORKS).time_step(workload, Layout())
    assert times is not None
    return times.gpu_s


@pytest.mark.parametrize("packing", [SequencePacking.PADDING_FREE, SequencePacking.PACKED])
@pytest.mark.parametrize("attention", [Attention.EAGER, Attention.SDPA])
def test_every_token_of_a_masked_row_meets_every_other(
    attention: Attention, packing: SequencePacking
) -> None:
    """The scores of one row are eight times those of eight, and none of them is skipped."""
    padded, packed = (_time(attention, kind) for kind in (SequencePacking.NONE, packing))

    # Of queries and of values, 64 wide in 4 layers; forward, and twice that in backward.
    flops = 3 * 2 * (2 * 64 * 4) * 8 * _LENGTH * (8 * _LENGTH - _LENGTH)
    assert packed - padded > flops / 1e15


@pytest.mark.parametrize("window", [None, 256])
def test_a_dense_mask_leaves_every_score(window: int | None) -> None:
    """Causal attention skips half of them, a window all beyond it."""
    model = a_model(sliding_window=window)
    work = count_forward_work(model, dtype=DType.BF16, attention=Attention.SDPA)

    causal, masked = (
        work.attention_flops(2, 1024, masked=is_masked) for is_masked in (False, True)
    )

    assert masked == 2 * (2 * 64 * 4) * 2 * 1024**2
    assert causal <= masked / 2


def test_flash_attention_takes_sequences_one_by_one() -> None:
    """Their lengths come with the row."""
    padded, packed = (
        _time(Attention.FLASH, kind)
        for kind in (SequencePacking.NONE, SequencePacking.PADDING_FREE)
    )

    assert packed == padded

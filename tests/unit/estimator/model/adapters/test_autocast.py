"""Autocast over 16-bit weights: what a trainer's ``bf16=True`` does to adapters."""

from dataclasses import replace

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.precision import POLICIES, Precision
from service.estimator.values.workload import Attention, Lora, Method, TrainWorkload
from tests.builders import a_model

DEVICE = Device(name="card", capacity_bytes=2**40, usable_bytes=2**40)
AUTOCAST = Precision(
    name="custom",
    param_dtype=DType.BF16,
    compute_dtype=DType.BF16,
    grad_dtype=DType.BF16,
    optimizer_dtype=DType.FP32,
    autocast=True,
)


def forward_bytes(precision: Precision, method: Method) -> int:
    """Return the bytes of forward with adapters on every linear layer."""
    workload = TrainWorkload(
        sequence_length=512,
        precision=precision,
        method=method,
        lora=Lora(rank=4),
        attention=Attention.FLASH,
    )
    answer = estimate(a_model(), workload, layout=Layout(), device=DEVICE)
    return next(instant.allocated_bytes for instant in answer.instants if instant.name == "forward")


@pytest.mark.parametrize("method", [Method.LORA, Method.QLORA])
def test_adapters_read_sixteen_bits_under_autocast(method: Method) -> None:
    """Autocast casts adapters down instead of their inputs up: two bytes saved where four were."""
    assert forward_bytes(AUTOCAST, method) < forward_bytes(POLICIES["bf16"], method)


@pytest.mark.parametrize(
    "workload",
    [
        TrainWorkload(sequence_length=8, precision=POLICIES["fp16_autocast"]),
        TrainWorkload(
            sequence_length=8,
            precision=POLICIES["amp_fp16"],
            method=Method.LORA,
            lora=Lora(rank=4, dtype=DType.FP16),
        ),
    ],
    ids=["weights", "adapters"],
)
def test_a_scaler_refuses_gradients_of_sixteen_bits(workload: TrainWorkload) -> None:
    """Autocast to fp16 comes with a scaler, which cannot unscale what is fp16 itself."""
    with pytest.raises(InvalidInputError, match="scaler refuses fp16") as refusal:
        estimate(a_model(), workload, layout=Layout(), device=DEVICE)

    assert refusal.value.field == "workload.precision"


def test_fp32_adapters_on_fp16_weights_are_scaled() -> None:
    """The scaler sees the gradients of what is trained alone."""
    assert forward_bytes(POLICIES["fp16_autocast"], Method.LORA) == forward_bytes(
        POLICIES["bf16_autocast"], Method.LORA
    )


def test_autocast_has_no_fp32() -> None:
    """CUDA's autocast to 32 bits turns itself off."""
    workload = TrainWorkload(
        sequence_length=8, precision=replace(POLICIES["fp32"], name="custom", autocast=True)
    )

    with pytest.raises(InvalidInputError) as refusal:
        estimate(a_model(), workload, layout=Layout(), device=DEVICE)

    assert refusal.value.field == "workload.precision.autocast"

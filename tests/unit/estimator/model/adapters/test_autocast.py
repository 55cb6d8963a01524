"""Autocast over 16-bit weights: what a trainer's ``bf16=True`` does to adapters."""

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


def test_without_adapters_it_does_nothing() -> None:
    """A whole model in bf16 has nothing that autocast to bf16 could cast."""
    workload = TrainWorkload(sequence_length=8, precision=AUTOCAST)

    with pytest.raises(InvalidInputError) as refusal:
        estimate(a_model(), workload, layout=Layout(), device=DEVICE)

    assert refusal.value.field == "workload.precision.autocast"

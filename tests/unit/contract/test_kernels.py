"""Kernels of adapters, and what follows from them where nothing else is said."""

from typing import Any

import msgspec

from service.contract.schemas.workload import WorkloadRequest
from service.contract.to_question.workloads import read_workload
from service.estimator.values.adapters.lora_kernels import LoraKernel
from service.estimator.values.losses import Loss
from service.estimator.values.workload import TrainWorkload


def train(**fields: object) -> tuple[TrainWorkload, list[str]]:
    """Read a training request."""
    request: Any = msgspec.convert(
        {"task": "train", "sequence_length": 4096} | fields, WorkloadRequest
    )
    workload, assumptions = read_workload(request)
    assert isinstance(workload, TrainWorkload)
    return workload, assumptions


def test_axolotls_kernels_are_in_one_order_and_leave_norms_in_16_bits() -> None:
    """Axolotl casts norms back after PEFT has prepared the model."""
    workload, assumptions = train(method="qlora", lora={"kernels": ["mlp", "qkv", "mlp"]})

    assert workload.lora is not None
    assert workload.lora.kernels == (LoraKernel.QKV, LoraKernel.MLP)
    assert workload.fp32_norms_and_head is False
    assert any("axolotl casts norms" in line for line in assumptions)


def test_norms_are_not_trained_by_foak() -> None:
    """Its kernel returns no gradient of their weight; adapters leave it frozen anyway."""
    whole, assumptions = train(method="full", kernels="foak")
    adapted, _ = train(method="lora", kernels="foak")

    assert (whole.frozen, adapted.frozen) == (("norm",), ())
    assert whole.loss is Loss.FUSED_CROSS_ENTROPY
    assert any("foak's kernel returns no gradient" in line for line in assumptions)

"""Blocks in closed form against a loop over blocks: the same model, each layer a kind of its
own.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import Precision
from service.estimator.values.result import Estimate
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import (
    a_device,
    a_gpt2,
    a_mixture,
    a_model,
    a_serving,
    a_sharded_layout,
    a_training,
)

_FSDP1 = a_sharded_layout(4, sharding=Sharding.FSDP1)
_FSDP2 = a_sharded_layout(4, sharding=Sharding.FSDP2)
_CAST = Precision(
    name="custom",
    param_dtype=DType.FP32,
    compute_dtype=DType.BF16,
    grad_dtype=DType.FP32,
    optimizer_dtype=DType.FP32,
)
_LORA: dict[str, Any] = {"method": Method.LORA, "lora": Lora(rank=8)}


def _unrolled(model: Architecture) -> Architecture:
    """Return the same model with every layer recorded for itself."""
    return replace(
        model, blocks=tuple((block, 1) for block, count in model.blocks for _ in range(count))
    )


def _ask(model: Architecture, workload: TrainWorkload | ServeWorkload, layout: Layout) -> Estimate:
    return estimate(model, workload, layout=layout, device=a_device())


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize(
    "layout",
    [Layout(), _FSDP1, _FSDP2, replace(_FSDP2, reshard_after_forward=False)],
    ids=["one", "fsdp1", "fsdp2", "kept"],
)
@pytest.mark.parametrize("checkpointing", [Checkpointing.NONE, Checkpointing.FULL])
@pytest.mark.parametrize(
    ("make", "workload"),
    [
        (a_model, a_training(precision="bf16")),
        (a_model, a_training(precision="fp32", attention=Attention.EAGER)),
        (a_model, a_training(precision="amp_bf16")),
        (a_model, a_training(precision="megatron_bf16")),
        (a_model, a_training(precision="bf16", gradient_accumulation_steps=2)),
        (a_model, a_training(precision="bf16", **_LORA)),
        (a_model, a_training(precision="amp_bf16", **_LORA)),
        (a_model, a_training(precision="fp32", gradient_accumulation_steps=2, **_LORA)),
        (a_gpt2, a_training(precision="bf16", attention=Attention.EAGER)),
        (a_gpt2, a_training(precision="amp_bf16", **_LORA)),
        (a_mixture, a_training(precision="bf16")),
        (
            a_mixture,
            a_training(
                precision="fp32",
                method=Method.LORA,
                lora=Lora(rank=8, targets=("q_proj", "v_proj")),
            ),
        ),
    ],
)
def test_training_in_closed_form_equals_a_loop(
    make: Callable[..., Architecture],
    workload: TrainWorkload,
    checkpointing: Checkpointing,
    layout: Layout,
    depth: int,
) -> None:
    """Every number of the answer is the same, whether equal layers are recorded once or one by
    one.
    """
    model = make(num_hidden_layers=depth)
    workload = replace(workload, activation_checkpointing=checkpointing)

    assert _ask(model, workload, layout) == _ask(_unrolled(model), workload, layout)


@pytest.mark.parametrize("depth", [1, 2, 3, 6])
@pytest.mark.parametrize("layout", [Layout(), _FSDP1, _FSDP2], ids=["one", "fsdp1", "fsdp2"])
@pytest.mark.parametrize("method", [{}, _LORA], ids=["full", "lora"])
@pytest.mark.parametrize("precision", ["bf16", "amp_bf16"])
def test_reentrant_checkpoints_in_closed_form_equal_a_loop(
    precision: str, method: dict[str, Any], layout: Layout, depth: int
) -> None:
    """The same where blocks are run again with a backward of their own."""
    model = a_model(num_hidden_layers=depth)
    workload = a_training(
        precision=precision,
        activation_checkpointing=Checkpointing.FULL,
        reentrant_checkpointing=True,
        **method,
    )

    assert _ask(model, workload, layout) == _ask(_unrolled(model), workload, layout)


@pytest.mark.parametrize("depth", [1, 2, 5])
@pytest.mark.parametrize("cache", [Cache.DYNAMIC, Cache.STATIC])
@pytest.mark.parametrize("make", [a_model, a_gpt2, a_mixture])
def test_serving_in_closed_form_equals_a_loop(
    make: Callable[..., Architecture], cache: Cache, depth: int
) -> None:
    """The same for prefill and decode."""
    model = make(num_hidden_layers=depth)

    assert _ask(model, a_serving(cache=cache), Layout()) == _ask(
        _unrolled(model), a_serving(cache=cache), Layout()
    )


def test_a_cast_at_gather_in_closed_form_equals_a_loop() -> None:
    """Mixed precision under FSDP2 too."""
    model = a_model()
    workload = TrainWorkload(sequence_length=64, precision=_CAST)

    assert _ask(model, workload, _FSDP2) == _ask(_unrolled(model), workload, _FSDP2)

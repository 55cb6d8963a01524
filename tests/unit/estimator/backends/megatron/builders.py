"""Jobs of Megatron-LM for tests."""

from typing import Any

from service.estimator.estimate import estimate
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.megatron import MegatronOptions
from service.estimator.values.precision import POLICIES
from service.estimator.values.result import Estimate
from service.estimator.values.units import GIB
from service.estimator.values.workload import Framework, TrainWorkload
from tests.builders import a_gpt2

H100 = Device(name="H100-SXM5-80GB", capacity_bytes=80 * GIB, usable_bytes=79 * GIB)
GB200 = Device(name="GB200-186GB", capacity_bytes=186 * GIB, usable_bytes=184 * GIB)
A100 = Device(name="A100-SXM4-80GB", capacity_bytes=80 * GIB, usable_bytes=79 * GIB)

SEPARATE = MegatronOptions(gradient_accumulation_fusion=False)
"""Gradients of weights are tensors of their own, as in most of Megatron-LM's functional tests."""


def a_gpt3(**changes: Any) -> Architecture:  # noqa: ANN401 - each field of the spec has its own type
    """Return the model of most of Megatron-LM's functional tests, with changes."""
    numbers: dict[str, Any] = {
        "vocab_size": 50304,
        "hidden_size": 512,
        "num_hidden_layers": 12,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "head_dim": 64,
        "intermediate_size": 2048,
        "activation": "gelu",
        "max_position_embeddings": 1024,
    }
    return a_gpt2(**(numbers | changes))


def a_megatron_step(**changes: Any) -> TrainWorkload:  # noqa: ANN401 - each field has its own type
    """Return four sequences of 1024 tokens in Megatron-LM's bf16, with changes."""
    words: dict[str, Any] = {
        "framework": Framework.MEGATRON,
        "precision": POLICIES["megatron_bf16"],
        "sequence_length": 1024,
        "micro_batch_size": 4,
    }
    return TrainWorkload(**(words | changes))


def a_megatron_layout(**changes: Any) -> Layout:  # noqa: ANN401 - each field has its own type
    """Return one rank, with changes."""
    return Layout(**({"sharding": Sharding.MEGATRON} | changes))


def answered(
    model: Architecture | None = None,
    *,
    device: Device = H100,
    layout: dict[str, Any] | None = None,
    **words: Any,  # noqa: ANN401 - each field has its own type
) -> Estimate:
    """Return the answer for a job."""
    return estimate(
        model or a_gpt3(),
        a_megatron_step(**words),
        layout=a_megatron_layout(**(layout or {})),
        device=device,
    )

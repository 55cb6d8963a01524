"""Values of the estimator for tests.

Every argument has a default that does not matter to the test.
"""

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.tree import MoeSpec, build_moe
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.values.device import Device
from service.estimator.values.generation import Client
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.units import GIB
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload

TINY = DecoderSpec(
    family="llama",
    vocab_size=512,
    hidden_size=64,
    num_hidden_layers=4,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=16,
    intermediate_size=160,
    activation="silu",
)


def a_model(**changes: Any) -> Architecture:  # noqa: ANN401 - each field of the spec has its own type
    """Return a small llama with changes."""
    return build_decoder(replace(TINY, **changes))


def a_gpt2(**changes: Any) -> Architecture:  # noqa: ANN401 - each field of the spec has its own type
    """Return a small GPT-2 with changes."""
    switches: dict[str, Any] = {
        "family": "gpt2",
        "num_key_value_heads": 4,
        "intermediate_size": 256,
        "activation": "gelu_new",
        "norm": "layer",
        "gated": False,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "fused_projections": True,
        "rotary": False,
        "max_position_embeddings": 4096,
        "attention_dropout": 0.1,
        "residual_dropout": 0.1,
        "embedding_dropout": 0.1,
    }
    return a_model(**(switches | changes))


def a_mixture(**changes: Any) -> Architecture:  # noqa: ANN401 - each field of the spec has its own type
    """Return a small mixture of experts with changes."""
    dense = asdict(TINY)
    experts = {
        "num_experts": 8,
        "num_experts_per_token": 2,
        "expert_intermediate_size": dense["intermediate_size"],
    }
    routing = {"family": "mixtral", "router": "softmax_fp32", "renormalised": True}
    return build_moe(MoeSpec(**(dense | experts | routing | changes)))


def a_training(*, precision: str = "bf16_mixed", **changes: Any) -> TrainWorkload:  # noqa: ANN401 - each field has its own type
    """Return a training step of two sequences of 128 tokens.

    ``precision`` names a policy.
    """
    defaults: dict[str, Any] = {
        "sequence_length": 128,
        "micro_batch_size": 2,
        "precision": POLICIES[precision],
    }
    return TrainWorkload(**(defaults | changes))


def a_serving(**changes: Any) -> ServeWorkload:  # noqa: ANN401 - each field has its own type
    """Return a replica with two sequences of 100 + 28 tokens, on transformers in a plain loop."""
    defaults: dict[str, Any] = {"num_sequences": 2, "prompt_tokens": 100, "output_tokens": 28}
    if changes.get("engine", Engine.TRANSFORMERS) is Engine.TRANSFORMERS:
        defaults["client"] = Client.LOOP
    return ServeWorkload(**(defaults | changes))


def a_device(*, usable_bytes: int = 79 * GIB) -> Device:
    """Return a GPU of 80 GiB."""
    return Device(
        name="a-gpu", capacity_bytes=max(80 * GIB, usable_bytes), usable_bytes=usable_bytes
    )


def a_sharded_layout(
    num_ranks: int, *, stage: int = 3, sharding: Sharding = Sharding.DEEPSPEED
) -> Layout:
    """Return data parallelism with sharded states."""
    return Layout(data_parallel=num_ranks, zero_stage=stage, sharding=sharding)


def a_config(**changes: object) -> Mapping[str, object]:
    """Return a small llama's config.json with changes.

    A change to ``...`` leaves the field out.
    """
    config: dict[str, object] = {
        "model_type": "llama",
        "vocab_size": 512,
        "hidden_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 160,
    }
    return {name: value for name, value in (config | changes).items() if value is not ...}

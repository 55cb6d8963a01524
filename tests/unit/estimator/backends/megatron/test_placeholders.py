"""Gradients that stand in for those which products add to their buffers themselves."""

import pytest

from service.estimator.backends.megatron.placeholders import placeholder_bytes
from service.estimator.backends.megatron.shape import build_rank_shape
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import architecture_from_spec
from service.estimator.values.device import Device
from service.estimator.values.losses import Loss
from service.estimator.values.units import GIB, MIB
from service.estimator.values.workload import Attention
from tests.unit.estimator.backends.megatron.builders import a_gpt3, a_megatron_layout, answered

_B200 = Device(name="B200-180GB", capacity_bytes=180 * GIB, usable_bytes=178 * GIB)
_LATENT = {
    "family": "deepseek_v3",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "head_dim": 24,
    "rotary_dim": 8,
    "query_latent": 48,
    "key_value_latent": 32,
    "passed_dim": 16,
    "value_dim": 16,
    "complex_rotation": False,
    "query_key_norm": False,
    "intermediate_size": 96,
    "num_experts": 4,
    "num_experts_per_token": 2,
    "expert_intermediate_size": 40,
    "shared_intermediate_size": 80,
    "first_dense_layers": 1,
    "router": "softmax",
    "gated": True,
    "activation": "silu",
}


def _bytes(model: Architecture, *, dense: int, sparse: int = 0, **degrees: int) -> int:
    shape = build_rank_shape(model, a_megatron_layout(**degrees))
    return placeholder_bytes(
        shape, StageLayers(dense=dense, sparse=sparse, first=False, last=False)
    )


def test_layers_share_one_placeholder_per_shape() -> None:
    """Query, key and value in one product, the output, and both sides of the MLP: two bytes an
    element, once for all layers.
    """
    once = 2 * 512 * (3 * 512 + 512 + 2048 + 2048)

    assert _bytes(a_gpt3(), dense=1) == _bytes(a_gpt3(), dense=12) == once
    assert _bytes(a_gpt3(), dense=12, tensor_parallel=2) == once // 2


def test_weights_of_one_shape_share_a_placeholder() -> None:
    """With as many inner features as query, key and value have together, the MLP's first product
    adds nothing.
    """
    assert _bytes(a_gpt3(intermediate_size=3 * 512), dense=1) == 2 * 512 * (3 * 512 + 512 + 3 * 512)


def test_latents_and_experts_have_their_own() -> None:
    """Down to both latents and up again; experts of a rank share theirs, and the shared expert has
    its own.
    """
    model = architecture_from_spec(_LATENT)
    attention = 48 * 64 + 4 * 24 * 48 + (32 + 8) * 64 + 4 * 32 * 32 + 64 * 4 * 16

    dense, sparse = _bytes(model, dense=1), _bytes(model, dense=0, sparse=1)

    assert dense == 2 * (attention + 3 * 96 * 64)
    assert sparse == 2 * (attention + 3 * 40 * 64 + 3 * 80 * 64)
    assert _bytes(model, dense=1, sparse=1) == dense + sparse - 2 * attention


@pytest.mark.parametrize(
    ("tensor_parallel", "data_parallel", "gib"), [(2, 4, 60.68), (4, 2, 39.07), (8, 1, 28.29)]
)
def test_twelve_layers_of_llama_3_70b(tensor_parallel: int, data_parallel: int, gib: float) -> None:
    """Megatron-LM with Transformer Engine 2.11 and its fused cross entropy on B200 (SimuMax 1.2,
    docs/b200): within 60 MB.
    """
    model = a_gpt3(
        vocab_size=128256,
        hidden_size=8192,
        num_hidden_layers=12,
        num_attention_heads=64,
        num_key_value_heads=8,
        head_dim=128,
        intermediate_size=28672,
        activation="silu",
        gated=True,
        norm="rms",
        tie_word_embeddings=False,
        attention_bias=False,
        attention_output_bias=False,
        mlp_bias=False,
        rotary=True,
        attention_dropout=0.0,
        residual_dropout=0.0,
        embedding_dropout=0.0,
        max_position_embeddings=4096,
    )
    layout = {
        "tensor_parallel": tensor_parallel,
        "data_parallel": data_parallel,
        "sequence_parallel": True,
        "zero_stage": 1,
    }

    answer = answered(
        model,
        device=_B200,
        layout=layout,
        sequence_length=4096,
        micro_batch_size=1,
        gradient_accumulation_steps=4,
        attention=Attention.FLASH,
        loss=Loss.FUSED_CROSS_ENTROPY,
    )

    assert abs(answer.allocated_bytes - gib * GIB) < 60 * MIB

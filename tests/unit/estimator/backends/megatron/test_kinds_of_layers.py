"""Latent attention, norms on heads, shared experts and experts without a gate: what each keeps
beside a plain layer.
"""

from typing import Any

import pytest

from service.estimator.backends.megatron.chunks import record_chunk
from service.estimator.backends.megatron.shape import build_rank_shape, resolve_switches
from service.estimator.backends.megatron.stages import StageLayers
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.registry import (
    architecture_from_config,
    architecture_from_spec,
)
from service.estimator.values.errors import InvalidInputError, NotModelledError
from service.estimator.values.workload import Attention, Checkpointing, Offload, OffloadTarget
from tests.builders import a_model
from tests.unit.estimator.backends.megatron.builders import (
    a_gpt3,
    a_megatron_layout,
    a_megatron_step,
    answered,
)

_SMALL = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "intermediate_size": 96,
}
_LATENT = {
    **_SMALL,
    "model_type": "deepseek_v3",
    "num_key_value_heads": 4,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 2,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
_SPARSE = {
    **_SMALL,
    "model_type": "qwen2_moe",
    "num_key_value_heads": 2,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 48,
}


def _kept(model: Architecture, *, sparse: bool = False, **degrees: Any) -> int:  # noqa: ANN401 - degrees have their own types
    """Return the bytes per token that one layer in the middle keeps."""
    shape = build_rank_shape(model, a_megatron_layout(**degrees))
    how = resolve_switches(a_megatron_step(), heads=shape.heads, fused_attention=True)
    one, two = (
        record_chunk(
            shape,
            how,
            StageLayers(
                dense=0 if sparse else n, sparse=n if sparse else 0, first=False, last=False
            ),
        )
        for n in (1, 2)
    )
    return two.retained[3] - one.retained[3]


def test_latent_attention_keeps_both_latents_twice() -> None:
    """As they were and normalised, and queries, keys and values of all heads
    (multi_latent_attention.py).
    """
    h, f, heads, query_latent, latent, passed, turned, value = 64, 96, 4, 24, 32, 16, 8, 16

    kept = _kept(architecture_from_config(_LATENT))

    latents = 2 * 2 * query_latent + 2 * (latent + turned) + 2 * (latent + turned) + 2 * 1
    heads_kept = 2 * heads * (2 * (passed + turned) + value) + 2 * heads * value + 4 * heads
    assert kept == 8 * h + 2 * 4 + latents + heads_kept + 6 * f


def test_a_query_without_a_latent_comes_straight_from_the_hidden_state() -> None:
    """DeepSeek-V2-Lite has none: its latent is not kept, raw or normalised."""
    with_latent, without = (
        _kept(architecture_from_config(_LATENT | {"q_lora_rank": rank})) for rank in (24, None)
    )

    assert with_latent - without == 2 * 2 * 24 + 1


def test_norms_of_heads_keep_what_they_read() -> None:
    """Query, key and value before the norms stay beside those after them, with statistics for each
    head of both.
    """
    plain, normed = (_kept(a_model(query_key_norm=switch)) for switch in (False, True))

    assert normed - plain == 2 * (64 + 2 * 32) + 2 * 4 * 4


def test_a_shared_expert_keeps_what_an_mlp_does() -> None:
    """Gate and up, and their product: 6 bytes of each inner feature; its input is the experts'
    own.
    """
    alone, beside = (
        _kept(
            architecture_from_spec(
                architecture_from_config(_SPARSE).describe() | {"shared_intermediate_size": width}
            ),
            sparse=True,
        )
        for width in (0, 48)
    )

    assert beside - alone == 6 * 48


def test_experts_without_a_gate_weigh_their_rows_in_an_operation_of_its_own() -> None:
    """No kernel has their activation and the probabilities: rows keep 6 bytes per feature all the
    same, the shared MLP 4.
    """
    numbers = architecture_from_config(_SPARSE).describe()

    gated, plain = (
        _kept(architecture_from_spec(numbers | {"gated": gated}), sparse=True)
        for gated in (True, False)
    )

    assert gated - plain == 2 * 48


def test_selective_recomputation_of_a_flash_layer_drops_its_row_sums() -> None:
    """Flash attention keeps little more than its input and output: four bytes per head."""
    shape = build_rank_shape(a_gpt3(), a_megatron_layout())
    layers = StageLayers(dense=1, sparse=0, first=False, last=False)

    kept, again = (
        record_chunk(
            shape,
            resolve_switches(
                a_megatron_step(activation_checkpointing=how),
                heads=shape.heads,
                fused_attention=True,
            ),
            layers,
        ).retained[3]
        for how in (Checkpointing.NONE, Checkpointing.SELECTIVE)
    )

    assert kept - again == 4 * 8


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        ({"data_parallel": 3, "expert_parallel": 3}, "layout.expert_parallel"),
        ({"shard_size": 2, "data_parallel": 4}, "layout.shard_size"),
        ({"shard_embeddings_separately": True}, "layout.shard_embeddings_separately"),
        (
            {"tensor_parallel": 4, "sequence_parallel": True, "context_parallel": 2},
            "layout.sequence_parallel",
        ),
    ],
)
def test_ranks_that_cannot_share_experts_or_states_are_refused(
    layout: dict[str, Any], field: str
) -> None:
    """Experts divide over expert ranks, tokens over sequence ranks; states have one way to be
    spread.
    """
    model = architecture_from_config(_SPARSE)

    with pytest.raises((InvalidInputError, NotModelledError)) as refused:
        answered(model, layout=layout, sequence_length=1020)

    assert refused.value.field == field


def test_offload_has_no_term() -> None:
    """Megatron-LM's own offloading is another optimizer."""
    with pytest.raises(NotModelledError, match="offload"):
        answered(offload=Offload(optimizer=OffloadTarget.CPU), attention=Attention.SDPA)

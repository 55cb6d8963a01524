"""Families with routed experts, against terms worked out by hand from what each operation keeps.

h hidden, q heads x head_dim, k kv_heads x head_dim, i intermediate, a heads, E experts, t experts per token.
"""

import pytest

from service.estimator.errors import EstimatorError
from service.estimator.families.registry import architecture_from_config, architecture_from_spec
from service.estimator.workload import Attention
from tests.builders import a_training
from tests.unit.estimator.families.kept import PER_TOKEN, a_family, added_by_a_layer

_SMALL = {"vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2}
_MIXTRAL = {**_SMALL, "model_type": "mixtral", "intermediate_size": 96, "num_local_experts": 8, "num_experts_per_tok": 2}
_GLM = {
    **_SMALL,
    "model_type": "glm4_moe",
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "first_k_dense_replace": 2,
    "head_dim": 16,
}
_DEEPSEEK = {
    **_SMALL,
    "model_type": "deepseek_v3",
    "num_key_value_heads": 4,
    "intermediate_size": 96,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "n_group": 2,
    "topk_group": 1,
    "first_k_dense_replace": 1,
    "q_lora_rank": 24,
    "kv_lora_rank": 32,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
}
_OSS = {
    **_SMALL,
    "model_type": "gpt_oss",
    "intermediate_size": 96,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "head_dim": 16,
}
_LLAMA = {
    **_SMALL,
    "model_type": "llama4_text",
    "intermediate_size": 96,
    "intermediate_size_mlp": 160,
    "num_local_experts": 8,
    "head_dim": 16,
    "interleave_moe_layer_step": 2,
}


def test_a_mixture_keeps_its_sorted_rows() -> None:
    """Per routed row: two orders, an inverse, weights, and rows before, between and after both grouped products."""
    h, q, k, i, a, experts, chosen = 64, 64, 32, 96, 4, 8, 2
    attention_and_norms = 16 * h + 4 * q + 4 * k + 4 * a + 8
    router = 4 * experts + chosen * (8 + 4) + 4
    rows = chosen * (3 * 8 + 4 + 2 * h + 4 * i + 2 * i + 2 * i + 2 * h)

    kept = added_by_a_layer(a_family(**_MIXTRAL), a_training(precision="bf16", attention=Attention.FLASH))

    assert kept[PER_TOKEN] == attention_and_norms + router + rows


def test_a_latent_cache_keeps_one_latent_and_one_rotated_key() -> None:
    """All heads share both (arXiv:2405.04434, section 2.1.2)."""
    model = a_family(**_DEEPSEEK)

    assert {block.cache_elements_per_token for block, _ in model.blocks} == {32 + 8}


def test_latent_projections_are_counted() -> None:
    """Down and up for the query, down with the rotated key, up to keys and values, and out."""
    dense = a_family(**_DEEPSEEK).with_layers(1)
    heads, h = 4, 64

    attention = h * 24 + 24 * heads * (16 + 8) + h * (32 + 8) + 32 * heads * (16 + 16) + heads * 16 * h

    assert dense.parameter_counts().by_module["attention"] == attention


def test_correction_biases_belong_to_the_layers_that_have_experts() -> None:
    """Cutting the model to its dense layers leaves none."""
    model = a_family(**_GLM)

    assert model.buffer_bytes - model.with_layers(2).buffer_bytes == 2 * 8 * 4
    assert model.with_layers(3).buffer_bytes - model.with_layers(2).buffer_bytes == 8 * 4


def test_sinks_alternate_with_their_windows() -> None:
    """Sliding and full layers in turn, which a cut keeps in order."""
    model = a_family(**_OSS)

    assert [getattr(block, "cache_window", None) for block, _ in model.blocks] == [128, None]
    assert model.with_layers(3).order == (0, 1, 0)


def test_replicated_experts_compute_every_token() -> None:
    """Eight copies of each token before and after the products, and what stands between them; one of four layers is plain."""
    h, inner, experts = 64, 96, 8
    copies, between, router = experts * (2 * h + 2 * h), experts * (4 * inner + 2 * inner + 2 * inner), experts * (4 + 2) + 8
    shared, norms, plain = 8 * inner, 16 * h + 8, 4 * 64 + 4 * 32 + 4 * 4

    kept = added_by_a_layer(a_family(**_LLAMA), a_training(precision="bf16", attention=Attention.FLASH))

    assert a_family(**_LLAMA).order == (0, 1, 0, 2)
    assert kept[PER_TOKEN] == copies + between + router + shared + norms + plain


@pytest.mark.parametrize("config", [_MIXTRAL, _GLM, _DEEPSEEK, _OSS, _LLAMA], ids=lambda config: str(config["model_type"]))
def test_a_description_reads_back(config: dict[str, object]) -> None:
    """``describe`` and ``architecture_from_spec`` undo each other."""
    model = architecture_from_config(config)

    again = architecture_from_spec(model.describe())

    assert again.parameter_counts() == model.parameter_counts()
    assert again.fingerprint() == model.fingerprint()


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (_MIXTRAL | {"router_jitter_noise": 0.1}, "router_jitter_noise"),
        (_DEEPSEEK | {"rope_interleave": False}, "rope_interleave"),
        (_DEEPSEEK | {"model_type": "deepseek_v2", "topk_method": "group_limited_greedy"}, "topk_method"),
        (_GLM | {"n_group": 3}, "n_group"),
        (_LLAMA | {"moe_layers": [0, 3]}, "moe_layers"),
        (_MIXTRAL | {"model_type": "olmoe", "clip_qkv": 8.0}, "clip_qkv"),
        (_MIXTRAL | {"model_type": "qwen3_moe", "mlp_only_layers": [1]}, "mlp_only_layers"),
        (_MIXTRAL | {"model_type": "qwen3_moe", "decoder_sparse_step": 2}, "decoder_sparse_step"),
    ],
)
def test_a_switch_without_a_term_is_refused(config: dict[str, object], field: str) -> None:
    """The refusal names the field of the config."""
    with pytest.raises(EstimatorError) as refusal:
        architecture_from_config(config)

    assert getattr(refusal.value, "field", None) == field

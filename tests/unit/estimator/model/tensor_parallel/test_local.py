"""One tensor-parallel rank's share of a model."""

import pytest

from service.estimator.model.families.registry import architecture_from_config
from service.estimator.model.tensor_parallel.local import local_architecture
from service.estimator.model.tensor_parallel.split_plan import ENGINE, TRANSFORMERS, SplitPlan
from service.estimator.model.weights.tensors import Split
from service.estimator.values.errors import InvalidInputError, NotModelledError
from tests.builders import a_model

_MLA = {
    "model_type": "deepseek_v3",
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
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

_SHARED_HEADS = {
    "vocab_size": 512,
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 96,
}


def test_shares_add_up_to_the_model_and_its_norms() -> None:
    """Two ranks hold every weight once, but for the norms, which both hold."""
    model = a_model()

    local = local_architecture(model, 2)

    norms = model.counts.by_module["norm"]
    assert 2 * local.counts.total == model.counts.total + norms


def test_transformers_does_not_split_the_embedding() -> None:
    """The table is whole on every rank; the head is split and its logits are gathered."""
    model = a_model()

    local = local_architecture(model, 2, TRANSFORMERS)

    assert local.embedding == model.embedding
    assert (local.head.out_features, local.head.split) == (256, Split.GATHERED_COLUMNS)
    assert local.vocab_size == model.vocab_size


def test_key_and_value_heads_are_replicated_where_there_are_more_ranks() -> None:
    """Four ranks and two heads: each rank has one whole head, so keys and values exist twice."""
    local = local_architecture(a_model(), 4)

    (block, _), *_ = local.blocks
    outs = {layer.target: layer.out_features for layer in block.linears()}
    assert (outs["q_proj"], outs["k_proj"], outs["v_proj"]) == (16, 16, 16)
    assert block.cache_elements_per_token == 2 * 16


@pytest.mark.parametrize(
    ("ranks", "plan", "words"), [(3, ENGINE, "1, 2, 4"), (4, TRANSFORMERS, "possible: 1, 2")]
)
def test_a_degree_that_does_not_divide_is_refused_with_those_that_do(
    ranks: int, plan: SplitPlan, words: str
) -> None:
    """The refusal names the divisors of attention heads, or of key and value heads where they are
    not replicated.
    """
    with pytest.raises(InvalidInputError, match=words):
        local_architecture(a_model(), ranks, plan)


def test_the_vocabulary_is_padded_to_its_multiple() -> None:
    """A vocabulary that does not divide gets rows that no token has (Megatron-LM's
    make-vocab-size-divisible-by).
    """
    plan = SplitPlan(vocabulary=True, vocabulary_multiple=128)

    local = local_architecture(a_model(vocab_size=1000), 2, plan)

    assert local.embedding.shape[0] == local.head.out_features == 512


def test_latent_attention_keeps_its_small_projections_whole() -> None:
    """The projections into the latents are on every rank; those out of them, and every expert, are
    split.
    """
    model = architecture_from_config(_MLA)

    local = local_architecture(model, 2)

    whole, shared = (
        {
            layer.target: (layer.in_features, layer.out_features)
            for block, _ in tree.blocks
            for layer in block.linears()
        }
        for tree in (model, local)
    )
    assert whole["q_a_proj"] == shared["q_a_proj"]
    assert whole["kv_a_proj_with_mqa"] == shared["kv_a_proj_with_mqa"]
    assert shared["kv_b_proj"] == (32, whole["kv_b_proj"][1] // 2)
    assert 2 * local.counts.by_module["mlp_experts"] == model.counts.by_module["mlp_experts"]


def test_layers_with_a_state_are_refused() -> None:
    """State-space mixers have no plan here."""
    model = architecture_from_config(
        {"model_type": "mamba", "vocab_size": 512, "hidden_size": 64, "num_hidden_layers": 2}
    )

    with pytest.raises(NotModelledError, match="mamba"):
        local_architecture(model, 2)


def test_a_single_rank_holds_the_model() -> None:
    """Nothing is copied where there is nobody to share with."""
    model = a_model()

    assert local_architecture(model, 1) is model


def test_a_fused_projection_keeps_a_whole_head_of_each() -> None:
    """Four ranks, two key and value heads in one projection: a quarter of the query, one head of
    the key, one of the value.
    """
    model = architecture_from_config({"model_type": "phi3", "pad_token_id": 0, **_SHARED_HEADS})

    local = local_architecture(model, 4)

    (block, _), *_ = local.blocks
    assert {layer.target: layer.out_features for layer in block.linears()}[
        "qkv_proj"
    ] == 16 + 16 + 16


def test_the_gate_of_a_shared_expert_has_one_output_on_every_rank() -> None:
    """Everything else of the shared expert is split by its inner features."""
    experts = {
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "shared_expert_intermediate_size": 48,
    }
    model = architecture_from_config({"model_type": "qwen2_moe", **_SHARED_HEADS, **experts})

    local = local_architecture(model, 2)

    shared = {
        layer.name: layer.out_features for block, _ in local.blocks for layer in block.linears()
    }
    assert shared["mlp.shared_expert_gate"] == 1
    assert shared["mlp.shared_expert.up_proj"] == 24


def test_weights_of_each_head_shrink_with_the_heads() -> None:
    """Command R+ has a norm with a weight for each element of each head: a rank has those of its
    heads, and a whole one where it shares a head.
    """
    model = architecture_from_config(_SHARED_HEADS | {"model_type": "cohere", "use_qk_norm": True})

    two, four = (dict(local_architecture(model, n).counts.by_module) for n in (2, 4))

    # A head has 16 elements, a layer one norm of its own, of all 64, and the model another.
    assert model.counts.by_module["norm"] == 2 * (64 + 64 + 32) + 64
    assert two["norm"] == 2 * (64 + 32 + 16) + 64
    assert four["norm"] == 2 * (64 + 16 + 16) + 64

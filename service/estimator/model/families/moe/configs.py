"""Decoders with routed experts in place of the feed-forward layer.

Field names and defaults are those of transformers 5.23 (``models/*/configuration_*.py``).
"""

from dataclasses import fields, replace

from service.estimator.model.config_reader import Config, flag, head_dim, integer, num_experts, num_shared_experts, number, word
from service.estimator.model.families.dense.llama import mistral
from service.estimator.model.families.moe.tree import MoeSpec, build_moe
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.errors import NotModelledError

SPEC, build = MoeSpec, build_moe


def mixtral(config: Config) -> MoeSpec:
    """Return a mixtral: the weights of the chosen experts add up to one, in fp32."""
    _refuse_nonzero(config, "router_jitter_noise")
    experts = num_experts(config, 8), integer(config, "num_experts_per_tok", 2)
    return with_experts(mistral(config), experts, router="softmax_fp32", renormalised=True)


def qwen2_moe(config: Config) -> MoeSpec:
    """Return a qwen2_moe: a gated shared expert runs first."""
    dense = base(config, biased=flag(config, "qkv_bias", default=True))
    return with_experts(
        dense,
        (integer(config, "num_experts", 60), integer(config, "num_experts_per_tok", 4)),
        router="softmax",
        renormalised=flag(config, "norm_topk_prob", default=False),
        expert_intermediate_size=integer(config, "moe_intermediate_size", 1408),
        shared_intermediate_size=integer(config, "shared_expert_intermediate_size", 5632),
        first_dense_layers=_first_dense(config),
        spare_mask=True,
    )


def qwen3_moe(config: Config) -> MoeSpec:
    """Return a qwen3_moe: norms on query and key, a head dimension of its own."""
    bias = flag(config, "attention_bias", default=False)
    return with_experts(
        replace(base(config, biased=bias), attention_output_bias=bias, query_key_norm=True),
        (num_experts(config, 128), integer(config, "num_experts_per_tok", 8)),
        router="softmax",
        renormalised=flag(config, "norm_topk_prob", default=False),
        expert_intermediate_size=integer(config, "moe_intermediate_size", 768),
        first_dense_layers=_first_dense(config),
    )


def olmoe(config: Config) -> MoeSpec:
    """Return an olmoe: norms over the whole query and the whole key."""
    if config.get("clip_qkv") is not None:
        raise NotModelledError("clip_qkv of olmoe", field="clip_qkv", modelled=["clip_qkv: null"])
    bias = flag(config, "attention_bias", default=False)
    return with_experts(
        replace(base(config, biased=bias), attention_output_bias=bias),
        (integer(config, "num_experts", 64), integer(config, "num_experts_per_tok", 8)),
        router="softmax",
        renormalised=flag(config, "norm_topk_prob", default=False),
        wide_query_key_norm=True,
    )


def granitemoe(config: Config) -> MoeSpec:
    """Return a granitemoe: embeddings, both halves of a layer and the logits are scaled."""
    bias = flag(config, "attention_bias", default=False)
    return with_experts(
        replace(base(config, biased=bias), attention_output_bias=bias),
        (integer(config, "num_local_experts", 8), integer(config, "num_experts_per_tok", 2)),
        router="softmax_of_chosen",
    )


def glm4_moe(config: Config) -> MoeSpec:
    """Return a glm4_moe: the first layers dense, a shared expert, a choice within groups, a part of each head rotated."""
    dense = base(config, biased=flag(config, "attention_bias", default=False))
    dense = replace(dense, query_key_norm=flag(config, "use_qk_norm", default=False))
    return with_experts(
        dense,
        (integer(config, "n_routed_experts", 128), integer(config, "num_experts_per_tok", 8)),
        router="grouped_sigmoid",
        renormalised=flag(config, "norm_topk_prob", default=True),
        expert_intermediate_size=integer(config, "moe_intermediate_size", 1408),
        shared_intermediate_size=integer(config, "moe_intermediate_size", 1408) * num_shared_experts(config, 1),
        first_dense_layers=count(config, "first_k_dense_replace", 1),
        num_expert_groups=integer(config, "n_group", 1),
        num_chosen_groups=integer(config, "topk_group", 1),
        rotary_dim=int(dense.head_dim * partial_rotary_factor(config, 0.5)),
    )


def with_experts(dense: DecoderSpec, experts: tuple[int, int], **switches: object) -> MoeSpec:
    """Return the dense numbers with ``experts`` (all, per token); experts are as wide as a dense layer unless told."""
    values = {item.name: getattr(dense, item.name) for item in fields(DecoderSpec)}
    values |= {"num_experts": experts[0], "num_experts_per_token": experts[1]}
    return MoeSpec(**({"expert_intermediate_size": dense.intermediate_size} | values | switches))


def base(config: Config, *, biased: bool) -> DecoderSpec:
    """Return what all of these families read alike."""
    if flag(config, "use_sliding_window", default=False):
        raise NotModelledError("use_sliding_window", field="use_sliding_window", modelled=["use_sliding_window: false"])
    if integer(config, "decoder_sparse_step", 1) != 1:
        raise NotModelledError("decoder_sparse_step above 1", field="decoder_sparse_step", modelled=["1"])
    hidden, heads = integer(config, "hidden_size"), integer(config, "num_attention_heads")
    return DecoderSpec(
        family=word(config, "model_type", ""),
        vocab_size=integer(config, "vocab_size"),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=integer(config, "num_key_value_heads", heads),
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=integer(config, "intermediate_size"),
        activation=word(config, "hidden_act", "silu"),
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=False),
        attention_bias=biased,
        max_position_embeddings=integer(config, "max_position_embeddings", 4096),
        attention_dropout=number(config, "attention_dropout", 0.0),
    )


def _first_dense(config: Config) -> int:
    """Return how many layers are dense: ``mlp_only_layers``, which must be the first ones."""
    layers = config.get("mlp_only_layers") or []
    if layers != list(range(len(layers) if isinstance(layers, list) else 0)):
        raise NotModelledError(f"mlp_only_layers {layers!r}", field="mlp_only_layers", modelled=["the first layers, or none"])
    assert isinstance(layers, list)  # noqa: S101 - it is equal to one
    return len(layers)


def partial_rotary_factor(config: Config, default: float) -> float:
    """Return the share of a head that is rotated, where older and newer configs put it."""
    parameters = config.get("rope_parameters") or config.get("rope_scaling")
    if isinstance(parameters, dict) and "partial_rotary_factor" in parameters:
        return number(parameters, "partial_rotary_factor", default)
    return number(config, "partial_rotary_factor", default)


def count(config: Config, name: str, default: int) -> int:
    """Return an integer field that may be zero."""
    return 0 if config.get(name) == 0 else integer(config, name, default)


def _refuse_nonzero(config: Config, name: str) -> None:
    if config.get(name):
        raise NotModelledError(f"{name} {config[name]}", field=name, modelled=[f"{name}: 0"])

"""Decoders with routed experts in place of the feed-forward layer.

Field names and defaults are those of transformers 5.23 (``models/*/configuration_*.py``).
"""

from dataclasses import fields, replace

from service.estimator.model.config_reader import (
    Config,
    read_count,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_num_experts,
    read_num_shared_experts,
    read_string,
)
from service.estimator.model.families.dense.llama import mistral
from service.estimator.model.families.moe.tree import MoeSpec, build_moe
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.errors import NotModelledError

SPEC, build = MoeSpec, build_moe


def mixtral(config: Config) -> MoeSpec:
    """Return a mixtral.

    The weights of the chosen experts add up to one, in fp32.
    """
    _refuse_nonzero(config, "router_jitter_noise")
    experts = read_num_experts(config, 8), read_integer(config, "num_experts_per_tok", 2)
    return add_experts(mistral(config), experts, router="softmax_fp32", renormalised=True)


def qwen2_moe(config: Config) -> MoeSpec:
    """Return a qwen2_moe: a gated shared expert runs first."""
    dense = read_base(config, biased=read_flag(config, "qkv_bias", default=True))
    return add_experts(
        dense,
        (read_integer(config, "num_experts", 60), read_integer(config, "num_experts_per_tok", 4)),
        router="softmax",
        renormalised=read_flag(config, "norm_topk_prob", default=False),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 1408),
        shared_intermediate_size=read_integer(config, "shared_expert_intermediate_size", 5632),
        first_dense_layers=_count_dense_layers(config),
        spare_mask=True,
    )


def qwen3_moe(config: Config) -> MoeSpec:
    """Return a qwen3_moe.

    It has norms on query and key, and a head dimension of its own.
    """
    bias = read_flag(config, "attention_bias", default=False)
    return add_experts(
        replace(read_base(config, biased=bias), attention_output_bias=bias, query_key_norm=True),
        (read_num_experts(config, 128), read_integer(config, "num_experts_per_tok", 8)),
        router="softmax",
        renormalised=read_flag(config, "norm_topk_prob", default=False),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 768),
        first_dense_layers=_count_dense_layers(config),
    )


def olmoe(config: Config) -> MoeSpec:
    """Return an olmoe: norms over the whole query and the whole key."""
    if config.get("clip_qkv") is not None:
        raise NotModelledError("clip_qkv of olmoe", field="clip_qkv", modelled=["clip_qkv: null"])
    bias = read_flag(config, "attention_bias", default=False)
    return add_experts(
        replace(read_base(config, biased=bias), attention_output_bias=bias),
        (read_integer(config, "num_experts", 64), read_integer(config, "num_experts_per_tok", 8)),
        router="softmax",
        renormalised=read_flag(config, "norm_topk_prob", default=False),
        wide_query_key_norm=True,
    )


def granitemoe(config: Config) -> MoeSpec:
    """Return a granitemoe.

    Embeddings, the outputs of both sublayers and the logits are scaled.
    """
    bias = read_flag(config, "attention_bias", default=False)
    return add_experts(
        replace(read_base(config, biased=bias), attention_output_bias=bias),
        (
            read_integer(config, "num_local_experts", 8),
            read_integer(config, "num_experts_per_tok", 2),
        ),
        router="softmax_of_chosen",
    )


def glm4_moe(config: Config) -> MoeSpec:
    """Return a glm4_moe.

    The first layers are dense, there is a shared expert, the choice is within groups, and a part of
    each head is rotated.
    """
    dense = read_base(config, biased=read_flag(config, "attention_bias", default=False))
    dense = replace(dense, query_key_norm=read_flag(config, "use_qk_norm", default=False))
    return add_experts(
        dense,
        (
            read_integer(config, "n_routed_experts", 128),
            read_integer(config, "num_experts_per_tok", 8),
        ),
        router="grouped_sigmoid",
        renormalised=read_flag(config, "norm_topk_prob", default=True),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 1408),
        shared_intermediate_size=read_integer(config, "moe_intermediate_size", 1408)
        * read_num_shared_experts(config, 1),
        first_dense_layers=read_count(config, "first_k_dense_replace", 1),
        num_expert_groups=read_integer(config, "n_group", 1),
        num_chosen_groups=read_integer(config, "topk_group", 1),
        rotary_dim=int(dense.head_dim * read_partial_rotary_factor(config, 0.5)),
    )


def add_experts(dense: DecoderSpec, experts: tuple[int, int], **switches: object) -> MoeSpec:
    """Add experts to the numbers of a dense decoder.

    ``experts`` are their number and those per token; experts are as wide as a dense layer unless
    ``switches`` say otherwise.
    """
    values = {item.name: getattr(dense, item.name) for item in fields(DecoderSpec)}
    values |= {"num_experts": experts[0], "num_experts_per_token": experts[1]}
    return MoeSpec(**({"expert_intermediate_size": dense.intermediate_size} | values | switches))


def read_base(config: Config, *, biased: bool) -> DecoderSpec:
    """Return the numbers that all of these families read alike."""
    if read_flag(config, "use_sliding_window", default=False):
        raise NotModelledError(
            "use_sliding_window", field="use_sliding_window", modelled=["use_sliding_window: false"]
        )
    if read_integer(config, "decoder_sparse_step", 1) != 1:
        raise NotModelledError(
            "decoder_sparse_step above 1", field="decoder_sparse_step", modelled=["1"]
        )
    hidden, heads = read_integer(config, "hidden_size"), read_integer(config, "num_attention_heads")
    return DecoderSpec(
        family=read_string(config, "model_type", ""),
        vocab_size=read_integer(config, "vocab_size"),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers"),
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", heads),
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "intermediate_size"),
        activation=read_string(config, "hidden_act", "silu"),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=biased,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 4096),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
    )


def _count_dense_layers(config: Config) -> int:
    """Count the dense layers.

    They are listed in ``mlp_only_layers``, and must be the first ones.
    """
    layers = config.get("mlp_only_layers") or []
    if layers != list(range(len(layers) if isinstance(layers, list) else 0)):
        raise NotModelledError(
            f"mlp_only_layers {layers!r}",
            field="mlp_only_layers",
            modelled=["the first layers, or none"],
        )
    assert isinstance(layers, list)  # noqa: S101 - it is equal to one
    return len(layers)


def read_partial_rotary_factor(config: Config, default: float) -> float:
    """Return the rotated fraction of a head.

    Older and newer configs put it in different places.
    """
    parameters = config.get("rope_parameters") or config.get("rope_scaling")
    if isinstance(parameters, dict) and "partial_rotary_factor" in parameters:
        return read_fraction(parameters, "partial_rotary_factor", default)
    return read_fraction(config, "partial_rotary_factor", default)


def _refuse_nonzero(config: Config, name: str) -> None:
    if config.get(name):
        raise NotModelledError(f"{name} {config[name]}", field=name, modelled=[f"{name}: 0"])

"""DeepSeek-V2 and V3: latent attention and mixture of experts.

The first layers are dense, the others have routed and shared experts. Field names and defaults are
those of transformers 5.23 (``models/deepseek_v2``, ``models/deepseek_v3``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_count,
    read_flag,
    read_integer,
    read_num_shared_experts,
)
from service.estimator.model.families.moe.configs import add_experts, read_base
from service.estimator.model.families.moe.tree import MoeSpec, build_moe
from service.estimator.model.modules.attention.latent import LatentAttention
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError


@dataclass(frozen=True, slots=True, kw_only=True)
class LatentSpec(MoeSpec):
    """Numbers of a decoder with latent attention.

    ``query_latent`` 0 means that the query has no latent.
    """

    query_latent: int
    key_value_latent: int
    passed_dim: int
    value_dim: int
    complex_rotation: bool = False


SPEC = LatentSpec
_ROUTERS = {"greedy": "scaled_softmax", "group_limited_greedy": "grouped_softmax"}
"""Routers by ``topk_method`` of DeepSeek-V2."""


def deepseek_v2(config: Config) -> LatentSpec:
    """Return a DeepSeek-V2: rotation by complex numbers, a choice by softmax."""
    method = config.get("topk_method", "greedy")
    if method not in _ROUTERS:
        raise NotModelledError(
            f"topk_method {method!r}", field="topk_method", modelled=list(_ROUTERS)
        )
    grouped = method == "group_limited_greedy"
    dense = replace(
        read_base(config, biased=False), mlp_bias=read_flag(config, "mlp_bias", default=False)
    )
    if dense.mlp_bias:
        raise NotModelledError(
            "mlp_bias of deepseek_v2", field="mlp_bias", modelled=["mlp_bias: false"]
        )
    experts = (
        read_integer(config, "n_routed_experts", 64),
        read_integer(config, "num_experts_per_tok"),
    )
    spec = add_experts(
        dense,
        experts,
        router=_ROUTERS[method],
        num_expert_groups=read_integer(config, "n_group") if grouped else 1,
        num_chosen_groups=read_integer(config, "topk_group") if grouped else 1,
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 1407),
        shared_intermediate_size=read_integer(config, "moe_intermediate_size", 1407)
        * read_num_shared_experts(config, 2),
        first_dense_layers=read_count(config, "first_k_dense_replace", 0),
    )
    return read_latent(config, spec, complex_rotation=True)


def deepseek_v3(config: Config) -> LatentSpec:
    """Return a DeepSeek-V3: rotation by pairs of neighbours, a choice within groups."""
    if not read_flag(config, "rope_interleave", default=True):
        raise NotModelledError(
            "rope_interleave: false", field="rope_interleave", modelled=["rope_interleave: true"]
        )
    experts = (
        read_integer(config, "n_routed_experts", 256),
        read_integer(config, "num_experts_per_tok", 8),
    )
    spec = add_experts(
        read_base(config, biased=False),
        experts,
        router="grouped_sigmoid",
        renormalised=read_flag(config, "norm_topk_prob", default=True),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 2048),
        shared_intermediate_size=read_integer(config, "moe_intermediate_size", 2048)
        * read_num_shared_experts(config, 1),
        first_dense_layers=read_count(config, "first_k_dense_replace", 3),
        num_expert_groups=read_integer(config, "n_group", 8),
        num_chosen_groups=read_integer(config, "topk_group", 4),
    )
    return read_latent(config, spec, complex_rotation=False)


def read_latent(config: Config, spec: MoeSpec, *, complex_rotation: bool) -> LatentSpec:
    """Return the numbers of experts and latent attention."""
    values = asdict(spec) | {
        "attention_bias": read_flag(config, "attention_bias", default=False),
        "head_dim": read_integer(config, "qk_nope_head_dim", 128)
        + read_integer(config, "qk_rope_head_dim", 64),
        "rotary_dim": read_integer(config, "qk_rope_head_dim", 64),
        "query_latent": 0
        if "q_lora_rank" in config and config["q_lora_rank"] is None
        else read_integer(config, "q_lora_rank", 1536),
        "key_value_latent": read_integer(config, "kv_lora_rank", 512),
        "passed_dim": read_integer(config, "qk_nope_head_dim", 128),
        "value_dim": read_integer(config, "v_head_dim", 128),
        "complex_rotation": complex_rotation,
    }
    return LatentSpec(**values)


def build(spec: LatentSpec) -> Architecture:
    """Return the tree of a model with experts and latent attention.

    Every layer has latent attention.
    """
    tables = (spec.rotary_dim,) if spec.complex_rotation else (spec.rotary_dim, spec.rotary_dim)
    dtype = DType.FP32 if spec.complex_rotation else None
    return replace(
        build_moe(spec, build_latent_attention(spec)), rotary_tables=tables, rotary_dtype=dtype
    )


def build_latent_attention(spec: LatentSpec) -> LatentAttention:
    """Return the attention of one block."""
    hidden, heads = spec.hidden_size, spec.num_attention_heads
    return LatentAttention(
        query=_build_query(spec),
        query_norm=Norm(name="self_attn.q_a_layernorm", style="rms", size=spec.query_latent)
        if spec.query_latent
        else None,
        compress=_build_linear(
            "kv_a_proj_with_mqa",
            hidden,
            spec.key_value_latent + spec.rotary_dim,
            bias=spec.attention_bias,
        ),
        latent_norm=Norm(name="self_attn.kv_a_layernorm", style="rms", size=spec.key_value_latent),
        expand=_build_linear(
            "kv_b_proj", spec.key_value_latent, heads * (spec.passed_dim + spec.value_dim)
        ),
        output=_build_linear("o_proj", heads * spec.value_dim, hidden, bias=spec.attention_bias),
        num_heads=heads,
        nope_dim=spec.passed_dim,
        rope_dim=spec.rotary_dim,
        value_dim=spec.value_dim,
        complex_rotation=spec.complex_rotation,
        dropout=spec.attention_dropout,
    )


def _build_query(spec: LatentSpec) -> tuple[Linear, ...]:
    out = spec.num_attention_heads * spec.head_dim
    if not spec.query_latent:
        return (_build_linear("q_proj", spec.hidden_size, out),)
    down = _build_linear("q_a_proj", spec.hidden_size, spec.query_latent, bias=spec.attention_bias)
    return (down, _build_linear("q_b_proj", spec.query_latent, out))


def _build_linear(name: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(
        name=f"self_attn.{name}", kind="attention", in_features=ins, out_features=outs, bias=bias
    )

"""Llama 4's text model: chunked attention with positions and full attention without, experts in every layer or every few.

Field names and defaults are those of transformers 5.23 (``models/llama4/configuration_llama4.py``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, flag, integer
from service.estimator.model.families.moe.configs import base, with_experts
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.dense_experts import ReplicatedExperts, ScaledAttention
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama4Spec(MoeSpec):
    """A Llama 4: ``intermediate_size`` is that of dense layers, ``sliding_window`` the chunk of layers with positions."""

    plain_every: int
    """Each so many layers, one has no positions and reads everything."""
    sparse_every: int
    """Each so many layers, one has experts."""
    scales_queries: bool = True


SPEC = Llama4Spec


def llama4_text(config: Config) -> Llama4Spec:
    """Return a Llama 4 text model."""
    for name in ("no_rope_layers", "moe_layers", "layer_types"):
        if config.get(name):
            raise NotModelledError(f"{name} of llama4_text", field=name, modelled=["the pattern that the intervals make"])
    bias = flag(config, "attention_bias", default=False)
    dense = base({**config, "intermediate_size": integer(config, "intermediate_size_mlp", 16384)}, biased=bias)
    dense = replace(
        dense,
        attention_output_bias=bias,
        query_key_norm=flag(config, "use_qk_norm", default=True),
        sliding_window=integer(config, "attention_chunk_size", 8192),
    )
    inner = integer(config, "intermediate_size", 8192)
    experts = integer(config, "num_local_experts", 16), integer(config, "num_experts_per_tok", 1)
    spec = with_experts(dense, experts, router="replicated", expert_intermediate_size=inner, shared_intermediate_size=inner)
    return Llama4Spec(
        **asdict(spec),
        plain_every=integer(config, "no_rope_layer_interval", 4),
        sparse_every=integer(config, "interleave_moe_layer_step", 1),
        scales_queries=flag(config, "attn_temperature_tuning", default=True),
    )


def build(spec: Llama4Spec) -> Architecture:
    """Return the tree: up to four kinds of layers in their order."""
    numbers = range(1, spec.num_hidden_layers + 1)
    kinds = [(number % spec.plain_every != 0, number % spec.sparse_every == 0) for number in numbers]
    present = sorted(set(kinds), key=kinds.index)
    plain = build_decoder(replace(spec, query_key_norm=False))
    return replace(
        plain,
        spec=spec,
        blocks=tuple((_block(spec, rotary=kind[0], sparse=kind[1]), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds) if len(present) > 1 else (),
        rotary_tables=(spec.head_dim,),
        rotary_dtype=DType.FP32,
        buffer_bytes=rotary_buffer_bytes(spec.head_dim),
        masks=(None, spec.sliding_window),
    )


def _block(spec: Llama4Spec, *, rotary: bool, sparse: bool) -> Block:
    return Block(
        attention_norm=Norm(name="input_layernorm", style="rms", size=spec.hidden_size),
        attention=_attention(spec, rotary=rotary),
        feed_forward_norm=Norm(name="post_attention_layernorm", style="rms", size=spec.hidden_size),
        feed_forward=_experts(spec) if sparse else _gated(spec, "feed_forward", "mlp", spec.intermediate_size),
        names_attention=True,
    )


def _attention(spec: Llama4Spec, *, rotary: bool) -> ScaledAttention:
    hidden, query, key = spec.hidden_size, spec.num_attention_heads * spec.head_dim, spec.num_key_value_heads * spec.head_dim
    bias = spec.attention_bias
    return ScaledAttention(
        projections=(
            _linear("self_attn.q_proj", "attention", hidden, query, bias=bias),
            _linear("self_attn.k_proj", "attention", hidden, key, bias=bias),
            _linear("self_attn.v_proj", "attention", hidden, key, bias=bias),
        ),
        output=_linear("self_attn.o_proj", "attention", query, hidden, bias=bias),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=rotary,
        normalised=spec.query_key_norm,
        scaled=spec.scales_queries,
        sliding_window=spec.sliding_window if rotary else None,
        dropout=spec.attention_dropout,
    )


def _experts(spec: Llama4Spec) -> ReplicatedExperts:
    return ReplicatedExperts(
        router=_linear("feed_forward.router", "router", spec.hidden_size, spec.num_experts),
        shared=_gated(spec, "feed_forward.shared_expert", "mlp_shared_expert", spec.shared_intermediate_size),
        hidden_size=spec.hidden_size,
        intermediate_size=spec.expert_intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
    )


def _gated(spec: Llama4Spec, name: str, kind: str, inner: int) -> GatedFeedForward:
    return GatedFeedForward(
        gate=_linear(f"{name}.gate_proj", kind, spec.hidden_size, inner),
        up=_linear(f"{name}.up_proj", kind, spec.hidden_size, inner),
        down=_linear(f"{name}.down_proj", kind, inner, spec.hidden_size),
        activation=spec.activation,
    )


def _linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

"""Llama 4 text model: chunked and full attention, dense or sparse layers.

Chunked attention has positions, full attention none; every layer or every few has experts. Field
names and defaults are those of transformers 5.23 (``models/llama4/configuration_llama4.py``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import Config, read_flag, read_integer
from service.estimator.model.families.moe.configs import add_experts, read_base
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.dense_experts import DenseExperts, Llama4Attention
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError


@dataclass(frozen=True, slots=True, kw_only=True)
class Llama4Spec(MoeSpec):
    """Numbers of a Llama 4 text model.

    ``intermediate_size`` is that of dense layers, ``sliding_window`` the chunk of layers with
    positions.
    """

    plain_every: int
    """Period of the layers that have no positions and read everything."""
    sparse_every: int
    """Period of the layers that have experts."""
    scales_queries: bool = True


SPEC = Llama4Spec


def llama4_text(config: Config) -> Llama4Spec:
    """Return a Llama 4 text model."""
    for name, pattern in _list_patterns(config).items():
        if config.get(name) and config[name] != pattern:
            raise NotModelledError(
                f"{name} of llama4_text",
                field=name,
                modelled=["the pattern that the intervals make"],
            )
    bias = read_flag(config, "attention_bias", default=False)
    dense = read_base(
        {**config, "intermediate_size": read_integer(config, "intermediate_size_mlp", 16384)},
        biased=bias,
    )
    dense = replace(
        dense,
        attention_output_bias=bias,
        query_key_norm=read_flag(config, "use_qk_norm", default=True),
        sliding_window=read_integer(config, "attention_chunk_size", 8192),
    )
    inner = read_integer(config, "intermediate_size", 8192)
    experts = (
        read_integer(config, "num_local_experts", 16),
        read_integer(config, "num_experts_per_tok", 1),
    )
    spec = add_experts(
        dense,
        experts,
        router="replicated",
        expert_intermediate_size=inner,
        shared_intermediate_size=inner,
    )
    return Llama4Spec(
        **asdict(spec),
        plain_every=read_integer(config, "no_rope_layer_interval", 4),
        sparse_every=read_integer(config, "interleave_moe_layer_step", 1),
        scales_queries=read_flag(config, "attn_temperature_tuning", default=True),
    )


def _list_patterns(config: Config) -> dict[str, list[object]]:
    """Return the lists by layer that the intervals make.

    A config.json that transformers saves says them (``configuration_llama4.py``).
    """
    plain_every = read_integer(config, "no_rope_layer_interval", 4)
    sparse_every = read_integer(config, "interleave_moe_layer_step", 1)
    numbers = range(1, read_integer(config, "num_hidden_layers", 48) + 1)
    rotated = [number % plain_every != 0 for number in numbers]
    return {
        "no_rope_layers": [int(part) for part in rotated],
        "moe_layers": [number - 1 for number in numbers if number % sparse_every == 0],
        "layer_types": ["chunked_attention" if part else "full_attention" for part in rotated],
    }


def build(spec: Llama4Spec) -> Architecture:
    """Return the tree: up to four kinds of layers in their order."""
    numbers = range(1, spec.num_hidden_layers + 1)
    kinds = [
        (number % spec.plain_every != 0, number % spec.sparse_every == 0) for number in numbers
    ]
    present = sorted(set(kinds), key=kinds.index)
    plain = build_decoder(replace(spec, query_key_norm=False))
    return replace(
        plain,
        spec=spec,
        blocks=tuple(
            (_build_block(spec, rotary=kind[0], sparse=kind[1]), kinds.count(kind))
            for kind in present
        ),
        order=tuple(present.index(kind) for kind in kinds) if len(present) > 1 else (),
        rotary_tables=(spec.head_dim,),
        rotary_dtype=DType.FP32,
        buffer_bytes=rotary_buffer_bytes(spec.head_dim),
        final_norm=_build_norm(spec, "norm"),
        masks=(None, spec.sliding_window),
    )


def _build_norm(spec: Llama4Spec, name: str) -> Norm:
    return Norm(name=name, style="rms_cast_first", size=spec.hidden_size)


def _build_block(spec: Llama4Spec, *, rotary: bool, sparse: bool) -> Block:
    return Block(
        attention_norm=_build_norm(spec, "input_layernorm"),
        attention=_build_attention(spec, rotary=rotary),
        feed_forward_norm=_build_norm(spec, "post_attention_layernorm"),
        feed_forward=_build_experts(spec)
        if sparse
        else _build_gated_feed_forward(spec, "feed_forward", "mlp", spec.intermediate_size),
        names_attention=True,
    )


def _build_attention(spec: Llama4Spec, *, rotary: bool) -> Llama4Attention:
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    bias = spec.attention_bias
    return Llama4Attention(
        projections=(
            _build_linear("self_attn.q_proj", "attention", hidden, query, bias=bias),
            _build_linear("self_attn.k_proj", "attention", hidden, key, bias=bias),
            _build_linear("self_attn.v_proj", "attention", hidden, key, bias=bias),
        ),
        output=_build_linear("self_attn.o_proj", "attention", query, hidden, bias=bias),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=rotary,
        normalised=spec.query_key_norm,
        scaled=spec.scales_queries,
        sliding_window=spec.sliding_window if rotary else None,
        dropout=spec.attention_dropout,
    )


def _build_experts(spec: Llama4Spec) -> DenseExperts:
    return DenseExperts(
        router=_build_linear("feed_forward.router", "router", spec.hidden_size, spec.num_experts),
        shared=_build_gated_feed_forward(
            spec, "feed_forward.shared_expert", "mlp_shared_expert", spec.shared_intermediate_size
        ),
        hidden_size=spec.hidden_size,
        intermediate_size=spec.expert_intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
    )


def _build_gated_feed_forward(
    spec: Llama4Spec, name: str, kind: str, inner: int
) -> GatedFeedForward:
    return GatedFeedForward(
        gate=_build_linear(f"{name}.gate_proj", kind, spec.hidden_size, inner),
        up=_build_linear(f"{name}.up_proj", kind, spec.hidden_size, inner),
        down=_build_linear(f"{name}.down_proj", kind, inner, spec.hidden_size),
        activation=spec.activation,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

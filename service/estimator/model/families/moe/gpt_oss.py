"""gpt_oss: attention sinks, alternating windows and clamped experts.

Sliding and full layers alternate; experts have biases and a clamped gate. Field names and defaults
are those of transformers 5.23 (``models/gpt_oss/configuration_gpt_oss.py``).
"""

from dataclasses import asdict, dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_integer,
    read_layer_kinds,
    read_num_experts,
    read_sliding_window,
)
from service.estimator.model.families.moe.configs import add_experts, read_base
from service.estimator.model.families.moe.tree import MoeSpec, build_sparse_feed_forward
from service.estimator.model.modules.attention.sinks import SinkAttention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.errors import InvalidConfigError

SLIDING, FULL = "s", "f"


@dataclass(frozen=True, slots=True, kw_only=True)
class GptOssSpec(MoeSpec):
    """Numbers of a gpt_oss model.

    ``layer_kinds`` has a letter for each layer, sliding or full.
    """

    layer_kinds: str


SPEC = GptOssSpec


def gpt_oss(config: Config) -> GptOssSpec:
    """Return a gpt_oss."""
    bias = read_flag(config, "attention_bias", default=True)
    dense = read_base({**config, "head_dim": read_integer(config, "head_dim", 64)}, biased=bias)
    dense = replace(
        dense,
        attention_output_bias=bias,
        norm="rms_all_fp32",
        sliding_window=read_sliding_window(config, 128),
    )
    experts = read_num_experts(config, 128), read_integer(config, "num_experts_per_tok", 4)
    spec = add_experts(dense, experts, router="biased")
    layers = dense.num_hidden_layers
    kinds = read_layer_kinds(
        config,
        (SLIDING + FULL) * (layers // 2) + SLIDING * (layers % 2),
        {"sliding_attention": SLIDING, "full_attention": FULL},
    )
    if len(kinds) != layers:
        message = f"layer_types names {len(kinds)} layers, but num_hidden_layers is {layers}"
        raise InvalidConfigError(message, field="layer_types")
    return GptOssSpec(**asdict(spec), layer_kinds=kinds)


def build(spec: GptOssSpec) -> Architecture:
    """Return the tree: the kinds of layers in their order."""
    kinds = spec.layer_kinds[: spec.num_hidden_layers]
    if len(kinds) != spec.num_hidden_layers or set(kinds) - {SLIDING, FULL}:
        message = (
            f"layer_types names {len(kinds)} layers, but num_hidden_layers is "
            f"{spec.num_hidden_layers}"
        )
        raise InvalidConfigError(message, field="layer_types")
    present = sorted(set(kinds), key=kinds.index)
    return replace(
        build_decoder(spec),
        blocks=tuple((_build_block(spec, kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds) if len(present) > 1 else (),
        rotary_tables=(spec.head_dim // 2, spec.head_dim // 2),
        buffer_bytes=rotary_buffer_bytes(spec.head_dim),
        only_eager=True,
        masks=(None, spec.sliding_window),
    )


def _build_block(spec: GptOssSpec, kind: str) -> Block:
    norms = (
        Norm(name=name, style=spec.norm, size=spec.hidden_size)
        for name in ("input_layernorm", "post_attention_layernorm")
    )
    return Block(
        attention_norm=next(norms),
        attention=_build_attention(spec, spec.sliding_window if kind == SLIDING else None),
        feed_forward_norm=next(norms),
        feed_forward=build_sparse_feed_forward(spec),
    )


def _build_attention(spec: GptOssSpec, sliding_window: int | None) -> SinkAttention:
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    return SinkAttention(
        projections=(
            _build_linear(spec, "q_proj", hidden, query),
            _build_linear(spec, "k_proj", hidden, key),
            _build_linear(spec, "v_proj", hidden, key),
        ),
        output=_build_linear(spec, "o_proj", query, hidden),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        sliding_window=sliding_window,
        dropout=spec.attention_dropout,
    )


def _build_linear(spec: GptOssSpec, name: str, ins: int, outs: int) -> Linear:
    return Linear(
        name=f"self_attn.{name}",
        kind="attention",
        in_features=ins,
        out_features=outs,
        bias=spec.attention_bias,
    )

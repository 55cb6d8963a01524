"""Qwen3-Next: gated delta-rule and gated attention layers with experts.

Both kinds of layer alternate; each is followed by experts and a gated shared expert. Field names
and defaults are those of transformers 5.23 (``models/qwen3_next``).
"""

from dataclasses import dataclass, fields, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_integer,
    read_string,
)
from service.estimator.model.families.moe.configs import read_partial_rotary_factor
from service.estimator.model.families.moe.tree import MoeSpec, build_sparse_feed_forward
from service.estimator.model.modules.attention.gated import GatedAttention
from service.estimator.model.modules.layers.block import Block, Mixer
from service.estimator.model.modules.ssm.delta_net import DeltaNet
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm
from service.estimator.values.errors import InvalidConfigError, NotModelledError

ROTARY_FACTOR = 0.25
"""The share of a head that is rotated (configuration_qwen3_next.py)."""
_KINDS = ("linear_attention", "full_attention")


@dataclass(frozen=True, slots=True, kw_only=True)
class Qwen3NextSpec(MoeSpec):
    """Numbers of a Qwen3-Next model.

    ``attention_layers`` are the indices of layers with attention, with commas between.
    """

    attention_layers: str
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    kernel_size: int


SPEC = Qwen3NextSpec


def qwen3_next(config: Config) -> Qwen3NextSpec:
    """Return a Qwen3-Next."""
    if config.get("mlp_only_layers"):
        raise NotModelledError(
            "mlp_only_layers", field="mlp_only_layers", modelled=["mlp_only_layers: []"]
        )
    if read_integer(config, "decoder_sparse_step", 1) != 1:
        raise NotModelledError(
            "decoder_sparse_step above 1", field="decoder_sparse_step", modelled=["1"]
        )
    layers, size = (
        read_integer(config, "num_hidden_layers", 48),
        read_integer(config, "head_dim", 256),
    )
    bias = read_flag(config, "attention_bias", default=False)
    return Qwen3NextSpec(
        family=read_string(config, "model_type", "qwen3_next"),
        vocab_size=read_integer(config, "vocab_size", 151936),
        hidden_size=read_integer(config, "hidden_size", 2048),
        num_hidden_layers=layers,
        num_attention_heads=read_integer(config, "num_attention_heads", 16),
        num_key_value_heads=read_integer(config, "num_key_value_heads", 2),
        head_dim=size,
        intermediate_size=read_integer(config, "intermediate_size", 5632),
        activation=read_string(config, "hidden_act", "silu"),
        norm="rms_plus_one",
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 32768),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        num_experts=read_integer(config, "num_experts", 512),
        num_experts_per_token=read_integer(config, "num_experts_per_tok", 10),
        router="softmax",
        renormalised=read_flag(config, "norm_topk_prob", default=True),
        expert_intermediate_size=read_integer(config, "moe_intermediate_size", 512),
        shared_intermediate_size=read_integer(config, "shared_expert_intermediate_size", 512),
        rotary_dim=int(size * read_partial_rotary_factor(config, ROTARY_FACTOR)),
        attention_layers=_read_attention_layers(config, layers),
        key_heads=read_integer(config, "linear_num_key_heads", 16),
        value_heads=read_integer(config, "linear_num_value_heads", 32),
        key_dim=read_integer(config, "linear_key_head_dim", 128),
        value_dim=read_integer(config, "linear_value_head_dim", 128),
        kernel_size=read_integer(config, "linear_conv_kernel_dim", 4),
    )


def _read_attention_layers(config: Config, layers: int) -> str:
    """Return the indices of the layers with attention.

    They are those that are listed, or the last of every ``full_attention_interval``.
    """
    kinds = config.get("layer_types")
    if kinds is None:
        interval = read_integer(config, "full_attention_interval", 4)
        return ",".join(str(index) for index in range(layers) if (index + 1) % interval == 0)
    if (
        not isinstance(kinds, list)
        or len(kinds) != layers
        or any(kind not in _KINDS for kind in kinds)
    ):
        message = f"layer_types must list {' or '.join(_KINDS)} for each of {layers} layers"
        raise InvalidConfigError(message, field="layer_types")
    return ",".join(str(index) for index, kind in enumerate(kinds) if kind == "full_attention")


def build(spec: Qwen3NextSpec) -> Architecture:
    """Return the tree of two kinds of layer.

    They come in the order that the config gives.
    """
    if spec.value_heads % spec.key_heads:
        message = (
            f"linear_num_key_heads {spec.key_heads} does not divide linear_num_value_heads "
            f"{spec.value_heads}"
        )
        raise InvalidConfigError(message, field="linear_num_key_heads")
    dense = {item.name: getattr(spec, item.name) for item in fields(DecoderSpec)}
    plain = build_decoder(DecoderSpec(**dense))
    attention_layers = {int(index) for index in spec.attention_layers.split(",") if index}
    kinds = [index in attention_layers for index in range(spec.num_hidden_layers)]
    present = sorted(set(kinds), key=kinds.index)
    return replace(
        plain,
        spec=spec,
        blocks=tuple((_build_block(spec, attends=kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
        recurrent=True,
        chunked=True,
    )


def _build_block(spec: Qwen3NextSpec, *, attends: bool) -> Block:
    mixer: Mixer = _build_attention(spec) if attends else _build_delta_net(spec)
    return Block(
        attention_norm=_build_norm("input_layernorm", spec.hidden_size),
        attention=mixer,
        feed_forward_norm=_build_norm("post_attention_layernorm", spec.hidden_size),
        feed_forward=build_sparse_feed_forward(spec),
    )


def _build_attention(spec: Qwen3NextSpec) -> GatedAttention:
    hidden, query, key = (
        spec.hidden_size,
        spec.num_attention_heads * spec.head_dim,
        spec.num_key_value_heads * spec.head_dim,
    )
    to_query, to_key, to_value = (
        _build_linear(f"self_attn.{name}", "attention", hidden, out, bias=spec.attention_bias)
        for name, out in (("q_proj", 2 * query), ("k_proj", key), ("v_proj", key))
    )
    return GatedAttention(
        projections=(to_query, to_key, to_value),
        output=_build_linear(
            "self_attn.o_proj", "attention", query, hidden, bias=spec.attention_output_bias
        ),
        query_norm=_build_norm("self_attn.q_norm", spec.head_dim),
        key_norm=_build_norm("self_attn.k_norm", spec.head_dim),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary_dim=spec.rotary_dim,
        dropout=spec.attention_dropout,
    )


def _build_delta_net(spec: Qwen3NextSpec) -> DeltaNet:
    keys, values = spec.key_heads * spec.key_dim, spec.value_heads * spec.value_dim
    return DeltaNet(
        in_proj_qkvz=_build_linear(
            "linear_attn.in_proj_qkvz", "ssm", spec.hidden_size, 2 * keys + 2 * values
        ),
        in_proj_ba=_build_linear(
            "linear_attn.in_proj_ba", "ssm", spec.hidden_size, 2 * spec.value_heads
        ),
        out_proj=_build_linear("linear_attn.out_proj", "ssm", values, spec.hidden_size),
        norm=Norm(name="linear_attn.norm", style="rms", size=spec.value_dim),
        num_key_heads=spec.key_heads,
        num_value_heads=spec.value_heads,
        key_dim=spec.key_dim,
        value_dim=spec.value_dim,
        kernel_size=spec.kernel_size,
        activation=spec.activation,
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="rms_plus_one", size=size)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

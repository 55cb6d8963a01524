"""GPT-NeoX (Pythia): layer norms, partial rotary positions, parallel residual.

There is one fused projection. Field names and defaults are those of transformers 5.23
(``models/gpt_neox/configuration_gpt_neox.py``).
"""

from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.layers.parallel import ParallelBlock
from service.estimator.model.modules.mlp.feedforward import FeedForward
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm


@dataclass(frozen=True, slots=True, kw_only=True)
class NeoXSpec(DecoderSpec):
    """A GPT-NeoX."""

    rotary_dim: int
    parallel_residual: bool = True


SPEC = NeoXSpec


def gpt_neox(config: Config) -> NeoXSpec:
    """Return a GPT-NeoX."""
    hidden, heads = (
        read_integer(config, "hidden_size", 6144),
        read_integer(config, "num_attention_heads", 64),
    )
    dim, bias = (
        read_head_dim(config, hidden, heads),
        read_flag(config, "attention_bias", default=True),
    )
    dropout = read_fraction(config, "hidden_dropout", 0.0)
    return NeoXSpec(
        family="gpt_neox",
        vocab_size=read_integer(config, "vocab_size", 50432),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 44),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=dim,
        intermediate_size=read_integer(config, "intermediate_size", 24576),
        activation=read_string(config, "hidden_act", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=True,
        fused_projections=True,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 2048),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=dropout,
        embedding_dropout=dropout,
        rotary_dim=int(dim * _read_rotary_factor(config)),
        parallel_residual=read_flag(config, "use_parallel_residual", default=True),
    )


def _read_rotary_factor(config: Config) -> float:
    parameters = config.get("rope_parameters") or config.get("rope_scaling")
    if isinstance(parameters, dict) and "partial_rotary_factor" in parameters:
        return read_fraction(parameters, "partial_rotary_factor", 0.25)
    return read_fraction(config, "rotary_pct", 0.25)


def build(spec: NeoXSpec) -> Architecture:
    """Return the tree of a GPT-NeoX."""
    return replace(
        build_decoder(spec),
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        rotary_tables=(spec.rotary_dim, spec.rotary_dim),
        buffer_bytes=rotary_buffer_bytes(spec.rotary_dim),
    )


def _build_block(spec: NeoXSpec) -> Block | ParallelBlock:
    norms = [
        Norm(name=name, style="layer", size=spec.hidden_size, bias=True)
        for name in ("input_layernorm", "post_attention_layernorm")
    ]
    kind = ParallelBlock if spec.parallel_residual else Block
    return kind(
        attention_norm=norms[0],
        attention=_build_attention(spec),
        feed_forward_norm=norms[1],
        feed_forward=_build_feed_forward(spec),
    )


def _build_attention(spec: NeoXSpec) -> Attention:
    hidden, bias = spec.hidden_size, spec.attention_bias
    return Attention(
        projections=(_build_linear("attention.query_key_value", hidden, 3 * hidden, bias=bias),),
        output=_build_linear("attention.dense", hidden, hidden, bias=bias),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_attention_heads,
        head_dim=spec.head_dim,
        rotary_dim=spec.rotary_dim,
        dropout=spec.attention_dropout,
        output_dropout=spec.residual_dropout,
    )


def _build_feed_forward(spec: NeoXSpec) -> FeedForward:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return FeedForward(
        up=_build_linear("mlp.dense_h_to_4h", hidden, inner, bias=True),
        down=_build_linear("mlp.dense_4h_to_h", inner, hidden, bias=True),
        activation=spec.activation,
        dropout=spec.residual_dropout,
    )


def _build_linear(name: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(
        name=name, kind=name.partition(".")[0], in_features=ins, out_features=outs, bias=bias
    )

"""Build a decoder's tree of modules from its numbers."""

from service.estimator.model.architecture import Architecture
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.modules.mlp.feedforward import (
    FeedForward,
    GatedFeedForward,
)
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.errors import InvalidConfigError


def build_decoder(spec: DecoderSpec) -> Architecture:
    """Return the tree of a decoder-only model.

    Raises InvalidConfigError for numbers that no model can have.
    """
    check_decoder(spec)
    hidden = spec.hidden_size
    positions = (
        None
        if spec.rotary
        else Weight("wpe.weight", "embedding", (spec.max_position_embeddings, hidden))
    )
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, hidden)),
        position_embedding=positions,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        final_norm=_build_norm(spec, "norm"),
        head=Linear(
            name="lm_head", kind="lm_head", in_features=hidden, out_features=spec.vocab_size
        ),
        masks=(spec.sliding_window,),
        rotary_tables=(spec.head_dim, spec.head_dim) if spec.rotary else (),
        buffer_bytes=rotary_buffer_bytes(spec.head_dim) if spec.rotary else 0,
    )


def rotary_buffer_bytes(rotary_dim: int) -> int:
    """Return the bytes of a rotary embedding's buffers.

    They are its frequencies and their original, fp32 (modeling_rope_utils).
    """
    return 2 * 4 * (rotary_dim // 2)


def check_sizes(spec: DecoderSpec, *names: str) -> None:
    """Raise InvalidConfigError for numbers below one."""
    for name in names:
        if getattr(spec, name) < 1:
            message = f"{name} is {getattr(spec, name)}; it must be 1 or more"
            raise InvalidConfigError(message, field=name)


def check_decoder(spec: DecoderSpec) -> None:
    """Raise InvalidConfigError for numbers that no decoder can have."""
    check_sizes(
        spec,
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "head_dim",
        "intermediate_size",
    )
    if spec.num_key_value_heads < 1 or spec.num_attention_heads % spec.num_key_value_heads:
        message = (
            f"num_key_value_heads {spec.num_key_value_heads} does not divide num_attention_heads "
            f"{spec.num_attention_heads}"
        )
        raise InvalidConfigError(message, field="num_key_value_heads")
    if spec.activation not in ACTIVATIONS:
        message = (
            f"activation {spec.activation!r} is not known; known: {', '.join(sorted(ACTIVATIONS))}"
        )
        raise InvalidConfigError(message, field="activation")
    if spec.num_experts and not 1 <= spec.num_experts_per_token <= spec.num_experts:
        message = (
            f"num_experts_per_token is {spec.num_experts_per_token}; it must lie between 1 and "
            f"{spec.num_experts}"
        )
        raise InvalidConfigError(message, field="num_experts_per_token")


def _build_norm(spec: DecoderSpec, name: str) -> Norm:
    return Norm(name=name, style=spec.norm, size=spec.hidden_size, bias=spec.norm == "layer")


def _build_block(spec: DecoderSpec) -> Block:
    return Block(
        attention_norm=_build_norm(spec, "input_layernorm"),
        attention=_build_attention(spec),
        feed_forward_norm=_build_norm(spec, "post_attention_layernorm"),
        feed_forward=_build_feed_forward(spec),
    )


def _build_attention(spec: DecoderSpec) -> Attention:
    hidden, query = spec.hidden_size, spec.num_attention_heads * spec.head_dim
    key = spec.num_key_value_heads * spec.head_dim
    separate = (("q_proj", query), ("k_proj", key), ("v_proj", key))
    outs = (("c_attn", query + 2 * key),) if spec.fused_projections else separate
    norms = [
        Norm(name=f"self_attn.{name}", style="rms", size=spec.head_dim)
        if spec.query_key_norm
        else None
        for name in ("q_norm", "k_norm")
    ]
    return Attention(
        projections=tuple(
            _build_linear(f"self_attn.{name}", "attention", hidden, out, bias=spec.attention_bias)
            for name, out in outs
        ),
        output=_build_linear(
            "self_attn.c_proj" if spec.fused_projections else "self_attn.o_proj",
            "attention",
            query,
            hidden,
            bias=spec.attention_output_bias,
        ),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=spec.rotary,
        query_norm=norms[0],
        key_norm=norms[1],
        upcast_softmax=spec.norm == "rms",
        dropout=spec.attention_dropout,
        output_dropout=spec.residual_dropout,
        sliding_window=spec.sliding_window,
    )


def _build_feed_forward(spec: DecoderSpec) -> GatedFeedForward | FeedForward:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    if spec.gated:
        return GatedFeedForward(
            gate=_build_linear("mlp.gate_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            up=_build_linear("mlp.up_proj", "mlp", hidden, inner, bias=spec.mlp_bias),
            down=_build_linear("mlp.down_proj", "mlp", inner, hidden, bias=spec.mlp_bias),
            activation=spec.activation,
        )
    return FeedForward(
        up=_build_linear("mlp.c_fc", "mlp", hidden, inner, bias=spec.mlp_bias),
        down=_build_linear("mlp.c_proj", "mlp", inner, hidden, bias=spec.mlp_bias),
        activation=spec.activation,
        dropout=spec.residual_dropout,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

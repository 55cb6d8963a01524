"""Jamba (arXiv:2403.19887): Mamba and attention layers with experts.

Some of the layers have experts; there are no positions. Field names and defaults are those of
transformers 5.23 (``models/jamba``).
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.config_reader import (
    Config,
    read_count,
    read_flag,
    read_fraction,
    read_integer,
    read_string,
)
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.layers.block import Block, Mixer, PositionwiseLayer
from service.estimator.model.modules.mlp.experts import Experts, SparseFeedForward
from service.estimator.model.modules.mlp.feedforward import GatedFeedForward
from service.estimator.model.modules.mlp.routers import SoftmaxRouter
from service.estimator.model.modules.ssm.mamba import MambaMixer, list_unread_adapters
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.values.errors import InvalidConfigError
from service.estimator.values.units import ceil_div

HIDDEN_PER_STEP_RANK = 16
"""``mamba_dt_rank`` "auto" is a sixteenth of the hidden size."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JambaSpec(DecoderSpec):
    """Numbers of a Jamba model.

    Of each period of layers, the one at the offset has attention, or experts.
    """

    attention_period: int
    attention_offset: int
    expert_period: int
    expert_offset: int
    expansion: int
    state_size: int
    step_rank: int
    kernel_size: int
    convolution_bias: bool = True
    projection_bias: bool = False


SPEC = JambaSpec


def jamba(config: Config) -> JambaSpec:
    """Return a Jamba."""
    hidden, heads = (
        read_integer(config, "hidden_size", 4096),
        read_integer(config, "num_attention_heads", 32),
    )
    automatic = config.get("mamba_dt_rank", "auto") == "auto"
    return JambaSpec(
        family=read_string(config, "model_type", "jamba"),
        vocab_size=read_integer(config, "vocab_size", 65536),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 32),
        num_attention_heads=heads,
        num_key_value_heads=read_integer(config, "num_key_value_heads", 8),
        head_dim=hidden // heads,
        intermediate_size=read_integer(config, "intermediate_size", 14336),
        activation=read_string(config, "hidden_act", "silu"),
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=False),
        rotary=False,
        num_experts=read_integer(config, "num_experts", 16),
        num_experts_per_token=read_integer(config, "num_experts_per_tok", 2),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        attention_period=read_integer(config, "attn_layer_period", 8),
        attention_offset=read_count(config, "attn_layer_offset", 4),
        expert_period=read_integer(config, "expert_layer_period", 2),
        expert_offset=read_count(config, "expert_layer_offset", 1),
        expansion=read_integer(config, "mamba_expand", 2),
        state_size=read_integer(config, "mamba_d_state", 16),
        step_rank=ceil_div(hidden, HIDDEN_PER_STEP_RANK)
        if automatic
        else read_integer(config, "mamba_dt_rank"),
        kernel_size=read_integer(config, "mamba_d_conv", 4),
        convolution_bias=read_flag(config, "mamba_conv_bias", default=True),
        projection_bias=read_flag(config, "mamba_proj_bias", default=False),
    )


def build(spec: JambaSpec) -> Architecture:
    """Return the tree of up to four kinds of layer.

    They come in the order of both periods.
    """
    _check_periods(spec)
    layers = range(spec.num_hidden_layers)
    kinds = [
        (index % spec.attention_period == spec.attention_offset, _has_experts(spec, index))
        for index in layers
    ]
    present = sorted(set(kinds), key=kinds.index)
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple(
            (_build_block(spec, attends=kind[0], routes=kind[1]), kinds.count(kind))
            for kind in present
        ),
        order=tuple(present.index(kind) for kind in kinds),
        final_norm=_build_norm(spec, "final_layernorm"),
        head=Linear(
            name="lm_head",
            kind="lm_head",
            in_features=spec.hidden_size,
            out_features=spec.vocab_size,
        ),
        recurrent=True,
        never_trained=list_unread_adapters("mamba"),
    )


def _check_periods(spec: JambaSpec) -> None:
    check_decoder(spec)
    for what in ("attention", "expert"):
        period, offset = getattr(spec, f"{what}_period"), getattr(spec, f"{what}_offset")
        if offset >= period:
            message = f"{what} offset {offset} must be less than the {what} period {period}"
            raise InvalidConfigError(
                message, field=f"{'attn' if what == 'attention' else what}_layer_offset"
            )


def _has_experts(spec: JambaSpec, index: int) -> bool:
    return spec.num_experts > 1 and index % spec.expert_period == spec.expert_offset


def _build_block(spec: JambaSpec, *, attends: bool, routes: bool) -> Block:
    mixer: Mixer = _build_attention(spec) if attends else _build_mamba(spec)
    transform: PositionwiseLayer = _build_experts(spec) if routes else _build_feed_forward(spec)
    return Block(
        attention_norm=_build_norm(spec, "input_layernorm"),
        attention=mixer,
        feed_forward_norm=_build_norm(spec, "pre_ff_layernorm"),
        feed_forward=transform,
    )


def _build_attention(spec: JambaSpec) -> Attention:
    hidden, query = spec.hidden_size, spec.num_attention_heads * spec.head_dim
    key = spec.num_key_value_heads * spec.head_dim
    return Attention(
        projections=tuple(
            _build_linear(f"self_attn.{name}", "attention", hidden, out)
            for name, out in (("q_proj", query), ("k_proj", key), ("v_proj", key))
        ),
        output=_build_linear("self_attn.o_proj", "attention", query, hidden),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotary=False,
        dropout=spec.attention_dropout,
    )


def _build_mamba(spec: JambaSpec) -> MambaMixer:
    hidden, inner = spec.hidden_size, spec.expansion * spec.hidden_size
    norms = (
        ("dt_layernorm", spec.step_rank),
        ("b_layernorm", spec.state_size),
        ("c_layernorm", spec.state_size),
    )
    return MambaMixer(
        in_proj=_build_linear("mamba.in_proj", "ssm", hidden, 2 * inner, bias=spec.projection_bias),
        x_proj=_build_linear("mamba.x_proj", "ssm", inner, spec.step_rank + 2 * spec.state_size),
        dt_proj=_build_linear("mamba.dt_proj", "ssm", spec.step_rank, inner, bias=True),
        out_proj=_build_linear("mamba.out_proj", "ssm", inner, hidden, bias=spec.projection_bias),
        inner_size=inner,
        state_size=spec.state_size,
        step_rank=spec.step_rank,
        kernel_size=spec.kernel_size,
        convolution_bias=spec.convolution_bias,
        activation=spec.activation,
        name="mamba",
        selected_norms=tuple(
            Norm(name=f"mamba.{name}", style="rms", size=size) for name, size in norms
        ),
    )


def _build_feed_forward(spec: JambaSpec) -> GatedFeedForward:
    hidden, inner = spec.hidden_size, spec.intermediate_size
    return GatedFeedForward(
        gate=_build_linear("feed_forward.gate_proj", "mlp", hidden, inner),
        up=_build_linear("feed_forward.up_proj", "mlp", hidden, inner),
        down=_build_linear("feed_forward.down_proj", "mlp", inner, hidden),
        activation=spec.activation,
    )


def _build_experts(spec: JambaSpec) -> SparseFeedForward:
    router = SoftmaxRouter(
        name="feed_forward.router",
        hidden_size=spec.hidden_size,
        num_experts=spec.num_experts,
        top_k=spec.num_experts_per_token,
        renormalised=False,
    )
    experts = Experts(
        name="feed_forward.experts",
        hidden_size=spec.hidden_size,
        intermediate_size=spec.intermediate_size,
        num_experts=spec.num_experts,
        num_experts_per_token=spec.num_experts_per_token,
        activation=spec.activation,
    )
    return SparseFeedForward(router=router, experts=experts)


def _build_norm(spec: JambaSpec, name: str) -> Norm:
    return Norm(name=name, style="rms", size=spec.hidden_size)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = False) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

"""Dense decoder variants of a llama.

They differ in norms, rotation, residuals or kinds of layers; all have one specification and one
tree.
"""

from dataclasses import dataclass

from service.estimator.model.architecture import Architecture, Embed, EmbeddingOutput, Finish
from service.estimator.model.layer_tables import make_masks
from service.estimator.model.modules.attention.self_attention import SelfAttention
from service.estimator.model.modules.layers.layers import SequentialLayer, SharedInputLayer
from service.estimator.model.modules.mlp.feedforward import (
    FeedForward,
    FusedGatedFeedForward,
    GatedFeedForward,
)
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder, rotary_buffer_bytes
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_output,
    chain,
    dropout,
    multiply_scalar,
)
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.ops.rotary import RotaryStyle, Rotation
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import InvalidConfigError

FULL, SLIDING, FULL_NO_ROPE, SLIDING_NO_ROPE = "fsnw"
"""Kinds of layers, as ``layer_kinds`` spells them: full attention or a window with rotary
positions, the same without.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariantSpec(DecoderSpec):
    """Numbers and switches of a dense decoder variant.

    Names of layers are those that adapters target. ``norms`` says where a sublayer is normalised:
    ``before``, ``after`` or ``around`` it. ``parallel`` layers share one input norm, and add the
    residual ``first`` or ``last``. ``layer_kinds`` has a letter per layer, empty for full
    attention.
    """

    norms: str = "before"
    norm_bias: bool = False
    parallel: str = ""
    rotation: str = "whole"
    rotary_dim: int = 0
    fp32_tables: bool = False
    projection_names: str = "q_proj k_proj v_proj o_proj"
    feed_forward_names: str = "gate_proj up_proj down_proj"
    query_key_norm_style: str = ""
    norms_whole_query: bool = False
    norms_of_heads: bool = False
    norms_before_value: bool = False
    clips: bool = False
    softcap: bool = False
    only_eager: bool = False
    """Whether the class has no fused attention though it caps no scores, as gemma 2's."""
    scales_embedding: str = ""
    scales_residual: bool = False
    logits_steps: int = 0
    """Operations on the logits before the loss: 1 is a factor, 3 a soft cap."""
    head_bias: bool = False
    layer_kinds: str = ""
    mask_kinds: str = ""
    keeps_names: bool = False
    dropout_inside: bool = False
    """Whether dropout sits at the end of both sublayers, rather than between them and the residual.
    """
    num_rotary_tables: int = 2
    """Tables of all layers, of which those of a kind that is not there are not made."""
    rotary_stretch: int = 1
    """Ratio of the positions that engines keep in the tables of full attention to
    ``max_position_embeddings``.
    """


def build_variant(spec: DecoderSpec) -> Architecture:
    """Return the tree of a variant.

    Raises InvalidConfigError for numbers that no model can have.
    """
    assert isinstance(spec, VariantSpec)  # noqa: S101 - the family's own SPEC
    check_decoder(spec)
    kinds = spec.layer_kinds[: spec.num_hidden_layers] or FULL * spec.num_hidden_layers
    if len(kinds) != spec.num_hidden_layers:
        message = (
            f"layer_types names {len(kinds)} layers, but num_hidden_layers is "
            f"{spec.num_hidden_layers}"
        )
        raise InvalidConfigError(message, field="layer_types")
    if spec.sliding_window is None and {SLIDING, SLIDING_NO_ROPE} & set(kinds):
        message = "layer_types names sliding_attention, but sliding_window is null"
        raise InvalidConfigError(message, field="sliding_window")
    present = sorted(set(kinds), key=kinds.index)
    windows = {FULL: None, SLIDING: spec.sliding_window}
    rotary_dim = spec.rotary_dim or spec.head_dim
    num_tables = min(spec.num_rotary_tables, 2 * len(present))
    masks = tuple(windows[kind] for kind in spec.mask_kinds or FULL)
    return Architecture(
        spec=spec,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, spec.hidden_size)),
        position_embedding=None,
        blocks=tuple((_build_layer(spec, kind), kinds.count(kind)) for kind in present),
        order=tuple(present.index(kind) for kind in kinds) if len(present) > 1 else (),
        final_norm=_build_norm(spec, "norm"),
        head=_build_linear(
            "lm_head", "lm_head", spec.hidden_size, spec.vocab_size, bias=spec.head_bias
        ),
        rotary_tables=(rotary_dim,) * num_tables,
        rotary_stretch=spec.rotary_stretch,
        rotary_dtype=DType.FP32 if spec.fp32_tables else None,
        buffer_bytes=num_tables // 2 * rotary_buffer_bytes(rotary_dim),
        buffer_elements=int(spec.scales_embedding == "inside"),
        layers_keep_tables=spec.rotation != "interleaved",
        only_eager=spec.only_eager or spec.softcap,
        masks=masks,
        scales_embedding=spec.scales_embedding == "inside",
        embed=_build_embed(spec, masks),
        finish_logits=_build_finish_logits(spec),
    )


def _build_layer(spec: VariantSpec, kind: str) -> SequentialLayer | SharedInputLayer:
    before, after = spec.norms in {"before", "around"}, spec.norms in {"after", "around"}
    if spec.parallel:
        return SharedInputLayer(
            attention=_build_attention(spec, kind),
            feed_forward=_build_feed_forward(spec),
            attention_norm=_build_norm(spec, "input_layernorm"),
            dropout=spec.residual_dropout,
            residual_first=spec.parallel == "first",
        )
    return SequentialLayer(
        attention=_build_attention(spec, kind),
        feed_forward=_build_feed_forward(spec),
        attention_norm=_build_norm(spec, "input_layernorm") if before else None,
        attention_output_norm=_build_norm(spec, "post_attention_layernorm") if after else None,
        feed_forward_norm=_build_norm(spec, "pre_feedforward_layernorm") if before else None,
        feed_forward_output_norm=_build_norm(spec, "post_feedforward_layernorm") if after else None,
        dropout=0.0 if spec.dropout_inside else spec.residual_dropout,
        scaled=spec.scales_residual,
        keeps_names=spec.keeps_names,
    )


def _build_attention(spec: VariantSpec, kind: str) -> SelfAttention:
    query, key = spec.num_attention_heads * spec.head_dim, spec.num_key_value_heads * spec.head_dim
    *names, output = (f"self_attn.{name}" for name in spec.projection_names.split())
    outs = (query + 2 * key,) if len(names) == 1 else (query, key, key)
    rotation = Rotation(
        style=RotaryStyle[spec.rotation.upper()],
        head_dim=spec.head_dim,
        rotary_dim=spec.rotary_dim or spec.head_dim,
    )
    return SelfAttention(
        projections=tuple(
            _build_linear(name, "attention", spec.hidden_size, out, bias=spec.attention_bias)
            for name, out in zip(names, outs, strict=True)
        ),
        output=_build_linear(
            output, "attention", query, spec.hidden_size, bias=spec.attention_output_bias
        ),
        num_heads=spec.num_attention_heads,
        num_kv_heads=spec.num_key_value_heads,
        head_dim=spec.head_dim,
        rotation=None if kind in {FULL_NO_ROPE, SLIDING_NO_ROPE} else rotation,
        query_norm=_build_head_norm(spec, "q_norm", spec.num_attention_heads),
        key_norm=_build_head_norm(spec, "k_norm", spec.num_key_value_heads),
        query_norms=_build_norms_per_head(spec, "q_layernorm", spec.num_attention_heads),
        key_norms=_build_norms_per_head(spec, "k_layernorm", spec.num_key_value_heads),
        norm_each_head=not spec.norms_whole_query,
        norms_before_value=spec.norms_before_value,
        clips=spec.clips,
        softcap=spec.softcap,
        sliding_window=spec.sliding_window if kind in {SLIDING, SLIDING_NO_ROPE} else None,
        dropout=spec.attention_dropout,
        output_dropout=spec.residual_dropout if spec.dropout_inside else 0.0,
        output_first=spec.family == "phi3",
    )


def _build_head_norm(spec: VariantSpec, name: str, heads: int) -> Norm | None:
    """Return a norm of query or key.

    It has a weight for each element of a head, or of all heads.
    """
    style = spec.query_key_norm_style
    if not style:
        return None
    size = heads * spec.head_dim if spec.norms_whole_query or style == "centred" else spec.head_dim
    return Norm(name=f"self_attn.{name}", style=style, size=size, bias=style == "layer")


def _build_norms_per_head(spec: VariantSpec, name: str, heads: int) -> tuple[Norm, ...]:
    if not spec.norms_of_heads:
        return ()
    return tuple(
        Norm(name=f"self_attn.{name}.norms.{head}", style="layer", size=spec.head_dim)
        for head in range(heads)
    )


def _build_feed_forward(
    spec: VariantSpec,
) -> FusedGatedFeedForward | GatedFeedForward | FeedForward:
    hidden, inner, act = spec.hidden_size, spec.intermediate_size, spec.activation
    *ins, down = spec.feed_forward_names.split()
    out = _build_linear(f"mlp.{down}", "mlp", inner, hidden, bias=spec.mlp_bias)
    output_dropout = spec.residual_dropout if spec.dropout_inside else 0.0
    if not spec.gated:
        up = _build_linear(f"mlp.{ins[0]}", "mlp", hidden, inner, bias=spec.mlp_bias)
        return FeedForward(up=up, down=out, activation=act, dropout=output_dropout)
    if len(ins) == 1:
        return FusedGatedFeedForward(
            gate_up=_build_linear(f"mlp.{ins[0]}", "mlp", hidden, 2 * inner, bias=spec.mlp_bias),
            down=out,
            activation=act,
        )
    gate, up = (
        _build_linear(f"mlp.{name}", "mlp", hidden, inner, bias=spec.mlp_bias) for name in ins
    )
    return GatedFeedForward(gate=gate, up=up, down=out, activation=act, dropout=output_dropout)


def _build_norm(spec: VariantSpec, name: str) -> Norm:
    return Norm(name=name, style=spec.norm, size=spec.hidden_size, bias=spec.norm_bias)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)


def _build_embed(spec: VariantSpec, masks: tuple[int | None, ...]) -> Embed | None:
    """Return the operation on the embeddings before the first layer.

    A factor rebinds their name, and dropout where it is not inside, after the masks of these
    windows; None where there is neither.
    """
    if spec.scales_embedding != "outside" and not spec.embedding_dropout:
        return None

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        tape, args = ctx.tape, (allocate_integers(ctx.tape, ctx.shape.positions(1)),)
        if spec.scales_embedding == "outside":
            return EmbeddingOutput(x=chain(tape, tokens, multiply_scalar), layer_args=args)
        shared_masks = make_masks(ctx, masks, tokens.dtype)
        names = (tokens,) if spec.dropout_inside and tape.builds_graph else ()
        x = dropout(tape, tokens, spec.embedding_dropout)
        if not names:
            tape.free(tokens)
        return EmbeddingOutput(
            x=x, x_is_local=not names, names=names, layer_args=args, masks=shared_masks
        )

    return embed


def _build_finish_logits(spec: VariantSpec) -> Finish | None:
    if not spec.logits_steps:
        return None

    def finish(ctx: Recording, logits: Value) -> Value:
        scaled = chain(ctx.tape, logits, multiply_scalar)
        if spec.logits_steps == 1:
            return scaled
        return chain(ctx.tape, chain(ctx.tape, scaled, activate_saving_output), multiply_scalar)

    return finish

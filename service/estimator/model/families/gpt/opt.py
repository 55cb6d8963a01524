"""OPT: learned positions, a scaled query, relu and dropout.

Every token has its position; the query is scaled before attention; 350m norms after each sublayer.
Field names and defaults are those of transformers 5.23 (``models/opt/configuration_opt.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
)
from service.estimator.model.layer_tables import make_masks
from service.estimator.model.modules.attention.projections import Attention
from service.estimator.model.modules.attention.returned_weights import keep_attention_weights
from service.estimator.model.modules.mlp.activations import ACTIVATIONS
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import build_decoder
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import add, chain, dropout
from service.estimator.tape.ops.products import allocate_integers, embedding, view
from service.estimator.values.dtypes import DType
from service.estimator.values.errors import NotModelledError

POSITION_OFFSET = 2
"""Rows of the position table before the first position (``OPTLearnedPositionalEmbedding``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OptSpec(DecoderSpec):
    """Numbers of an OPT model."""

    embedding_size: int
    norm_first: bool = True
    final_norm: bool = True


SPEC = OptSpec


def opt(config: Config) -> OptSpec:
    """Return an OPT."""
    if not read_flag(config, "layer_norm_elementwise_affine", default=True):
        what = "layer_norm_elementwise_affine: false of opt"
        raise NotModelledError(what, field="layer_norm_elementwise_affine", modelled=["true"])
    if read_fraction(config, "layerdrop", 0.0):
        raise NotModelledError("layerdrop of opt", field="layerdrop", modelled=["0"])
    hidden, heads = (
        read_integer(config, "hidden_size", 768),
        read_integer(config, "num_attention_heads", 12),
    )
    bias, first = (
        read_flag(config, "enable_bias", default=True),
        read_flag(config, "do_layer_norm_before", default=True),
    )
    return OptSpec(
        family="opt",
        vocab_size=read_integer(config, "vocab_size", 50272),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "num_hidden_layers", 12),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "ffn_dim", 3072),
        activation=read_string(config, "activation_function", "relu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        attention_bias=bias,
        attention_output_bias=bias,
        mlp_bias=bias,
        rotary=False,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 2048),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=read_fraction(config, "dropout", 0.1),
        embedding_size=read_integer(config, "word_embed_proj_dim", hidden),
        norm_first=first,
        final_norm=first and not read_flag(config, "_remove_final_layer_norm", default=False),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class OptBlock:
    """Decoder layer (``OPTDecoderLayer.forward``).

    Every step rebinds the name of its input.
    """

    attention_norm: Norm
    attention: Attention
    feed_forward_norm: Norm
    up: Linear
    down: Linear
    activation: str
    dropout: float
    norm_first: bool

    def linears(self) -> tuple[Linear, ...]:
        """Return the linear layers that adapters can target, in order of use."""
        return (*self.attention.linears(), self.up, self.down)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors."""
        for part in (
            self.attention_norm,
            self.attention,
            self.feed_forward_norm,
            self.up,
            self.down,
        ):
            yield from part.weights()

    def idle_parameters(self) -> int:
        """Return the parameters that one token does not use: none."""
        return 0

    @property
    def cache_elements_per_token(self) -> int:
        """Elements of key and value that a cache keeps for one token."""
        return self.attention.cache_elements_per_token

    def record(self, ctx: Recording, x: Value, scope: str) -> Value:
        """Record the layer, which drops its input.

        The input is dropped at the end, when the loop over layers rebinds its name.
        """
        tape = ctx.tape
        with keep_attention_weights(ctx):
            normed = ctx.norm(self.attention_norm, x, scope) if self.norm_first else tape.alias(x)
            mixed = chain(tape, normed, lambda _, value: self.attention.record(ctx, value, scope))
            mixed = chain(tape, mixed, lambda t, value: dropout(t, value, self.dropout))
            middle = self._add_residual(ctx, x, mixed, self.attention_norm, scope)
            middle = view(tape, middle)  # of rows, until the end
            normed = (
                ctx.norm(self.feed_forward_norm, middle, scope)
                if self.norm_first
                else tape.alias(middle)
            )
            hidden = chain(tape, normed, lambda _, value: ctx.linear(self.up, value, scope))
            activated = chain(tape, hidden, ACTIVATIONS[self.activation])
            fed = chain(tape, activated, lambda _, value: ctx.linear(self.down, value, scope))
            fed = chain(tape, fed, lambda t, value: dropout(t, value, self.dropout))
            y = self._add_residual(ctx, middle, fed, self.feed_forward_norm, scope)
            tape.free(middle, x)
        return view(tape, y)

    def _add_residual(
        self, ctx: Recording, residual: Value, x: Value, norm: Norm, scope: str
    ) -> Value:
        """Return the residual plus ``x``, which is dropped.

        It is normalised when norms come last.
        """
        summed = chain(ctx.tape, x, lambda t, value: add(t, residual, value))
        return (
            summed
            if self.norm_first
            else chain(ctx.tape, summed, lambda _, value: ctx.norm(norm, value, scope))
        )


def build(spec: OptSpec) -> Architecture:
    """Return the tree of an OPT."""
    plain = build_decoder(spec)
    hidden, narrow = spec.hidden_size, spec.embedding_size
    project_in = (
        _build_linear("project_in", "other", narrow, hidden, bias=False)
        if narrow != hidden
        else None
    )
    project_out = (
        _build_linear("project_out", "other", hidden, narrow, bias=False)
        if narrow != hidden
        else None
    )
    positions = Weight(
        "embed_positions.weight",
        "embedding",
        (spec.max_position_embeddings + POSITION_OFFSET, hidden),
    )

    projections = tuple(layer for layer in (project_in, project_out) if layer is not None)

    def embed(ctx: Recording, tokens: Value) -> EmbeddingOutput:
        return _record_embedding(ctx, tokens, positions, project_in)

    return replace(
        plain,
        embedding=Weight("embed_tokens.weight", "embedding", (spec.vocab_size, narrow)),
        position_embedding=positions,
        blocks=((_build_block(spec), spec.num_hidden_layers),),
        final_norm=plain.final_norm if spec.final_norm else None,
        head=replace(plain.head, in_features=narrow),
        stem=tuple(weight for layer in projections for weight in layer.weights()),
        outer_linears=projections,
        embed=embed,
        finish_body=(lambda ctx, x: ctx.linear(project_out, x, ""))
        if project_out is not None
        else None,
    )


def _record_embedding(
    ctx: Recording, tokens: Value, table: Weight, project_in: Linear | None
) -> EmbeddingOutput:
    """Record ``OPTDecoder.forward`` up to its first layer.

    Positions are counted on a mask of ones for every token.
    """
    tape, hidden = ctx.tape, table.shape[1]
    ones = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(ctx.shape.cached(1), DType.FP32)),
        ctx.shape.cached(1),
        DType.FP32,
    )
    position_ids = allocate_integers(tape, ctx.shape.cached(1))
    masks = make_masks(ctx, (None,), tokens.dtype)
    shifted = allocate_integers(tape, ctx.shape.tokens(1))
    placed = chain(
        tape,
        shifted,
        lambda t, ids: embedding(t, ctx.parameter(table), ids, ctx.shape.tokens(hidden)),
    )
    if project_in is not None:
        tokens = chain(tape, tokens, lambda _, value: ctx.linear(project_in, value, ""))
    x = add(tape, tokens, placed)
    names, layer_args = (ones, tokens, placed), (position_ids,)
    return EmbeddingOutput(x=x, x_is_local=False, names=names, layer_args=layer_args, masks=masks)


def _build_block(spec: OptSpec) -> OptBlock:
    hidden, inner, bias = spec.hidden_size, spec.intermediate_size, spec.attention_bias
    return OptBlock(
        attention_norm=Norm(name="self_attn_layer_norm", style="layer", size=hidden, bias=True),
        attention=Attention(
            projections=tuple(
                _build_linear(f"self_attn.{name}_proj", "attention", hidden, hidden, bias=bias)
                for name in ("q", "k", "v")
            ),
            output=_build_linear(
                "self_attn.out_proj", "attention", hidden, hidden, bias=spec.attention_output_bias
            ),
            num_heads=spec.num_attention_heads,
            num_kv_heads=spec.num_attention_heads,
            head_dim=spec.head_dim,
            rotary=False,
            scaled_query=True,
            dropout=spec.attention_dropout,
        ),
        feed_forward_norm=Norm(name="final_layer_norm", style="layer", size=hidden, bias=True),
        up=_build_linear("fc1", "mlp", hidden, inner, bias=spec.mlp_bias),
        down=_build_linear("fc2", "mlp", inner, hidden, bias=spec.mlp_bias),
        activation=spec.activation,
        dropout=spec.residual_dropout,
        norm_first=spec.norm_first,
    )


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

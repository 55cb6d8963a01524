"""BART and mBART encoder-decoder models.

Both stacks have learned positions, and a constant is added to the logits; BART's layers norm last,
mBART's first. Field names and defaults are those of transformers 5.23 (``models/bart``,
``models/mbart``), which are the same for both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
    refuse_false,
    refuse_field,
)
from service.estimator.model.modules.layers.encoder_decoder import (
    EncoderDecoderAttention,
    EncoderDecoderLayer,
)
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import get_shared_inputs
from service.estimator.model.trees.encoder_decoder import (
    WALKER,
    Encoder,
    EncoderDecoder,
    EncoderDecoderSpec,
    check_stacks,
)
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Attention as Kernel

POSITION_OFFSET = 2
"""Rows of a position table before the first position (``BartLearnedPositionalEmbedding``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BartSpec(EncoderDecoderSpec):
    """Numbers of a BART or mBART model.

    ``norm_first`` layers leave a last norm to the end of each stack.
    """

    norm_first: bool = False


SPEC = BartSpec


def bart(config: Config) -> BartSpec:
    """Return a BART."""
    return _read(config, "bart", norm_first=False)


def mbart(config: Config) -> BartSpec:
    """Return an mBART."""
    return _read(config, "mbart", norm_first=True)


def _read(config: Config, family: str, *, norm_first: bool) -> BartSpec:
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        refuse_field(config, name, modelled="0")
    # Encoder, decoder and head would each have a table of their own.
    refuse_false(config, "tie_word_embeddings")
    hidden, heads = (
        read_integer(config, "d_model", 1024),
        read_integer(config, "decoder_attention_heads", 16),
    )
    rate = read_fraction(config, "dropout", 0.1)
    return BartSpec(
        family=family,
        norm_first=norm_first,
        vocab_size=read_integer(config, "vocab_size", 50265),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "decoder_layers", 12),
        num_encoder_layers=read_integer(config, "encoder_layers", 12),
        num_attention_heads=heads,
        encoder_attention_heads=read_integer(config, "encoder_attention_heads", 16),
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "decoder_ffn_dim", 4096),
        encoder_intermediate_size=read_integer(config, "encoder_ffn_dim", 4096),
        activation=read_string(config, "activation_function", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=True,
        rotary=False,
        max_position_embeddings=read_integer(config, "max_position_embeddings", 1024),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=rate,
        embedding_dropout=rate,
        activation_dropout=read_fraction(config, "activation_dropout", 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class BartEmbeddings:
    """Embeddings of one stack (``forward`` up to the first layer).

    A factor, positions, a norm and dropout.
    """

    token_table: Weight
    positions: Weight
    norm: Norm
    dropout: float
    last_norm: Norm | None
    names_ones: bool
    """Whether the decoder names its mask of ones until its end (mBART), else its positions."""

    def finish(self, ctx: Recording, x: Value) -> Value:
        """Return what the stack gives; ``x`` stays with the caller."""
        return ctx.norm(self.last_norm, x, "") if self.last_norm is not None else ctx.tape.alias(x)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors but the word table."""
        yield self.positions
        yield from self.norm.weights()
        if self.last_norm is not None:
            yield from self.last_norm.weights()

    def embed_source(self, ctx: Recording, ids: Value) -> EmbeddingOutput:
        """Record the encoder's embeddings, with a position for every token."""
        tape, tokens = ctx.tape, ctx.shape.tokens
        rows = embedding(
            tape, ctx.parameter(self.token_table), ids, tokens(self.token_table.shape[1])
        )
        rows = chain(tape, rows, multiply_scalar)
        ctx.require_input_grad(rows)
        return self._embed(ctx, rows, tokens(1), tokens(self.positions.shape[1]))

    def embed_target(self, ctx: Recording, rows: Value) -> EmbeddingOutput:
        """Record the decoder's embeddings.

        All sequences share the positions; a mask of ones is only looked at.
        """
        ones = allocate_integers(ctx.tape, ctx.shape.tokens(1), bytes_each=4)
        embedded = self._embed(
            ctx, rows, ctx.shape.positions(1), ctx.shape.positions(self.positions.shape[1])
        )
        if self.names_ones:
            return replace(embedded, names=(*embedded.names, ones))
        ctx.tape.free(ones)
        numbers = allocate_integers(ctx.tape, ctx.shape.positions(1))
        return replace(embedded, names=(*embedded.names, numbers))

    def _embed(self, ctx: Recording, rows: Value, ids: Size, numel: Size) -> EmbeddingOutput:
        tape = ctx.tape
        shifted = allocate_integers(tape, ids)
        placed = chain(
            tape,
            shifted,
            lambda t, index: embedding(t, ctx.parameter(self.positions), index, numel),
        )
        normed = chain(tape, add(tape, rows, placed), lambda _, y: ctx.norm(self.norm, y, ""))
        x = chain(tape, normed, lambda t, y: dropout(t, y, self.dropout))
        return EmbeddingOutput(
            x=x, x_is_local=False, names=(rows, placed), layer_args=_make_masks(ctx)
        )


def _make_masks(ctx: Recording) -> tuple[Value, ...]:
    """Return the masks of a stack.

    They are of padding in the encoder and in cross-attention, and a causal one where eager
    attention adds it.
    """
    shared_inputs, eager = get_shared_inputs(ctx), ctx.settings.attention is Kernel.EAGER
    width = ctx.settings.dtype.bytes_per_element if eager else 1
    if ctx.padded or (eager and shared_inputs.across is not None):
        shared_inputs.masks["own"] = allocate_integers(
            ctx.tape, ctx.shape.mask(width), bytes_each=1
        )
    if shared_inputs.masked:
        shared_inputs.masks["across"] = allocate_integers(
            ctx.tape, shared_inputs.crossing.mask(width), bytes_each=1
        )
    return tuple(shared_inputs.masks.values())


def build(spec: BartSpec) -> EncoderDecoder:
    """Return the tree of a BART."""
    check_stacks(spec)
    hidden = spec.hidden_size
    token_table = Weight("shared.weight", "embedding", (spec.vocab_size, hidden))
    encoder, decoder = (
        _build_embeddings(spec, token_table, stack) for stack in ("encoder", "decoder")
    )
    return EncoderDecoder(
        spec=spec,
        embedding=token_table,
        position_embedding=None,
        blocks=(
            (_build_layer(spec, decodes=False), spec.num_encoder_layers),
            (_build_layer(spec, decodes=True), spec.num_hidden_layers),
        ),
        final_norm=None,
        head=Linear(
            name="lm_head", kind="lm_head", in_features=hidden, out_features=spec.vocab_size
        ),
        scales_embedding=True,
        stem=(*encoder.weights(), *decoder.weights()),
        buffer_elements=spec.vocab_size,
        masks=(),
        walker=WALKER,
        embed=decoder.embed_target,
        encoder=Encoder(
            inputs=lambda ctx: allocate_integers(ctx.tape, ctx.shape.tokens(1)),
            embed=encoder.embed_source,
            finish=encoder.finish,
        ),
        finish_decoder=decoder.finish,
        clamps_half=spec.norm_first,
        finish_logits=_add_logits_bias,
        shifts_labels=False,
        upcasts_logits=False,
    )


def _add_logits_bias(ctx: Recording, logits: Value) -> Value:
    """Return the logits plus ``final_logits_bias``.

    The bias is a buffer, which is loaded in the dtype of the weights. FSDP2 casts parameters alone
    as it gathers them: a buffer in fp32 makes the sum fp32.
    """
    tape = ctx.tape
    constant = Value(None, sizes.constant(0), ctx.settings.buffer_dtype or ctx.settings.dtype)
    summed = add(tape, logits, constant)
    tape.free(logits)
    return summed


def _build_embeddings(spec: BartSpec, token_table: Weight, stack: str) -> BartEmbeddings:
    rows = spec.max_position_embeddings + POSITION_OFFSET
    return BartEmbeddings(
        token_table=token_table,
        positions=Weight(f"{stack}.embed_positions.weight", "embedding", (rows, spec.hidden_size)),
        norm=_build_norm(f"{stack}.layernorm_embedding", spec.hidden_size),
        dropout=spec.embedding_dropout,
        last_norm=_build_norm(f"{stack}.layer_norm", spec.hidden_size) if spec.norm_first else None,
        names_ones=spec.norm_first,
    )


def _build_layer(spec: BartSpec, *, decodes: bool) -> EncoderDecoderLayer:
    hidden = spec.hidden_size
    inner = spec.intermediate_size if decodes else spec.encoder_intermediate_size
    heads = spec.num_attention_heads if decodes else spec.encoder_attention_heads
    names = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
    return EncoderDecoderLayer(
        attention=_build_attention(spec, "self_attn", heads, causal=decodes),
        cross_attention=_build_attention(spec, "encoder_attn", heads, is_cross_attention=True)
        if decodes
        else None,
        up=_build_linear("fc1", "mlp", hidden, inner),
        down=_build_linear("fc2", "mlp", inner, hidden),
        norms=tuple(
            _build_norm(name, hidden) for name in names if decodes or not name.startswith("encoder")
        ),
        norm_first=spec.norm_first,
        activation=spec.activation,
        dropout=spec.residual_dropout,
        activation_dropout=spec.activation_dropout,
    )


def _build_attention(
    spec: BartSpec, name: str, heads: int, *, causal: bool = False, is_cross_attention: bool = False
) -> EncoderDecoderAttention:
    query, key, value, output = (
        _build_linear(f"{name}.{part}", "attention", spec.hidden_size, spec.hidden_size)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj")
    )
    return EncoderDecoderAttention(
        query=query,
        key=key,
        value=value,
        output=output,
        num_heads=heads,
        causal=causal,
        is_cross_attention=is_cross_attention,
        dropout=spec.attention_dropout,
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size, bias=True)


def _build_linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=True)

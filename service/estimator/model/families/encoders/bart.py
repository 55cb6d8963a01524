"""BART and mBART: learned positions in both stacks, logits with a constant added; BART's layers norm last, mBART's first.

Field names and defaults are those of transformers 5.23 (``models/bart``, ``models/mbart``), which are the same for both.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Embedded
from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, refuse, word
from service.estimator.model.modules.layers.encoder_decoder import StackAttention, StackLayer
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import passing_of
from service.estimator.model.trees.encoder_decoder import WALKER, Encoder, EncoderDecoder, EncoderDecoderSpec, check_stacks
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import add, chain, dropout, multiply_scalar
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.tape.sizes import Size
from service.estimator.values.workload import Attention as Kernel

POSITION_OFFSET = 2
"""Rows of a position table before the first position (``BartLearnedPositionalEmbedding``)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BartSpec(EncoderDecoderSpec):
    """A BART; ``norm_first`` layers leave a last norm to the end of each stack."""

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
        refuse(config, name, modelled="0")
    hidden, heads = integer(config, "d_model", 1024), integer(config, "decoder_attention_heads", 16)
    rate = number(config, "dropout", 0.1)
    return BartSpec(
        family=family,
        norm_first=norm_first,
        vocab_size=integer(config, "vocab_size", 50265),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "decoder_layers", 12),
        num_encoder_layers=integer(config, "encoder_layers", 12),
        num_attention_heads=heads,
        encoder_attention_heads=integer(config, "encoder_attention_heads", 16),
        num_key_value_heads=heads,
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=integer(config, "decoder_ffn_dim", 4096),
        encoder_intermediate_size=integer(config, "encoder_ffn_dim", 4096),
        activation=word(config, "activation_function", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        rotary=False,
        max_position_embeddings=integer(config, "max_position_embeddings", 1024),
        attention_dropout=number(config, "attention_dropout", 0.0),
        residual_dropout=rate,
        embedding_dropout=rate,
        activation_dropout=number(config, "activation_dropout", 0.0),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Tables:
    """What one stack makes of its tokens: a factor, positions, a norm, dropout (``forward`` up to the first layer)."""

    words: Weight
    positions: Weight
    norm: Norm
    dropout: float
    last_norm: Norm | None
    names_ones: bool
    """Whether the decoder has a name for its mask of ones until its end (mBART)."""

    def finish(self, run: Recording, x: Value) -> Value:
        """Return what the stack gives; ``x`` stays with the caller."""
        return run.norm(self.last_norm, x, "") if self.last_norm is not None else run.tape.alias(x)

    def weights(self) -> Iterator[Weight]:
        """Yield the parameter tensors but the word table."""
        yield self.positions
        yield from self.norm.weights()
        if self.last_norm is not None:
            yield from self.last_norm.weights()

    def source(self, run: Recording, ids: Value) -> Embedded:
        """Record the encoder's: a position for every token."""
        tape, tokens = run.tape, run.extent.tokens
        rows = embedding(tape, run.parameter(self.words), ids, tokens(self.words.shape[1]))
        rows = chain(tape, rows, multiply_scalar)
        if run.checkpointed and run.lora is not None:
            tape.require_grad(rows)  # PEFT's enable_input_require_grads
        return self._embedded(run, rows, tokens(1), tokens(self.positions.shape[1]))

    def target(self, run: Recording, rows: Value) -> Embedded:
        """Record the decoder's: positions that all sequences share, and a mask of ones that is only looked at."""
        ones = integers(run.tape, run.extent.tokens(1), bytes_each=4)
        embedded = self._embedded(run, rows, run.extent.positions(1), run.extent.positions(self.positions.shape[1]))
        if self.names_ones:
            return replace(embedded, names=(*embedded.names, ones))
        run.tape.free(ones)
        return embedded

    def _embedded(self, run: Recording, rows: Value, ids: Size, numel: Size) -> Embedded:
        tape = run.tape
        shifted = integers(tape, ids)
        placed = chain(tape, shifted, lambda t, index: embedding(t, run.parameter(self.positions), index, numel))
        normed = chain(tape, add(tape, rows, placed), lambda _, y: run.norm(self.norm, y, ""))
        x = chain(tape, normed, lambda t, y: dropout(t, y, self.dropout))
        return Embedded(x=x, named=False, names=(rows, placed), passed=_masks(run))


def _masks(run: Recording) -> tuple[Value, ...]:
    """Return the masks of a stack: of padding in the encoder and across, and a causal one where eager attention adds it."""
    passing, eager = passing_of(run), run.attention is Kernel.EAGER
    width = run.dtype.bytes_per_element if eager else 1
    if run.padded or (eager and passing.across is not None):
        passing.masks["own"] = integers(run.tape, run.extent.mask(width), bytes_each=1)
    if passing.masked:
        passing.masks["across"] = integers(run.tape, passing.crossing.mask(width), bytes_each=1)
    return tuple(passing.masks.values())


def build(spec: BartSpec) -> EncoderDecoder:
    """Return the tree of a BART."""
    check_stacks(spec)
    hidden = spec.hidden_size
    words = Weight("shared.weight", "embedding", (spec.vocab_size, hidden))
    encoder, decoder = (_tables(spec, words, stack) for stack in ("encoder", "decoder"))
    return EncoderDecoder(
        spec=spec,
        embedding=words,
        position_embedding=None,
        blocks=((_layer(spec, decodes=False), spec.num_encoder_layers), (_layer(spec, decodes=True), spec.num_hidden_layers)),
        final_norm=None,
        head=Linear(name="lm_head", kind="lm_head", in_features=hidden, out_features=spec.vocab_size),
        scales_embedding=True,
        stem=(*encoder.weights(), *decoder.weights()),
        buffer_elements=spec.vocab_size,
        masks=(),
        walker=WALKER,
        embed=decoder.target,
        encoder=Encoder(
            inputs=lambda run: integers(run.tape, run.extent.tokens(1)),
            embed=encoder.source,
            finish=encoder.finish,
        ),
        finish_decoder=decoder.finish,
        clamps_half=spec.norm_first,
        finish_logits=_with_constant,
        shifts_labels=False,
        upcasts_logits=False,
    )


def _with_constant(run: Recording, logits: Value) -> Value:
    """Return the logits plus ``final_logits_bias``, a buffer in the dtype of the weights."""
    tape = run.tape
    constant = Value(None, sizes.constant(0), run.dtype)
    summed = add(tape, logits, constant)
    tape.free(logits)
    return summed


def _tables(spec: BartSpec, words: Weight, stack: str) -> Tables:
    rows = spec.max_position_embeddings + POSITION_OFFSET
    return Tables(
        words=words,
        positions=Weight(f"{stack}.embed_positions.weight", "embedding", (rows, spec.hidden_size)),
        norm=_norm(f"{stack}.layernorm_embedding", spec.hidden_size),
        dropout=spec.embedding_dropout,
        last_norm=_norm(f"{stack}.layer_norm", spec.hidden_size) if spec.norm_first else None,
        names_ones=spec.norm_first,
    )


def _layer(spec: BartSpec, *, decodes: bool) -> StackLayer:
    hidden = spec.hidden_size
    inner = spec.intermediate_size if decodes else spec.encoder_intermediate_size
    heads = spec.num_attention_heads if decodes else spec.encoder_attention_heads
    names = ("self_attn_layer_norm", "encoder_attn_layer_norm", "final_layer_norm")
    return StackLayer(
        attention=_attention(spec, "self_attn", heads, causal=decodes),
        across=_attention(spec, "encoder_attn", heads, across=True) if decodes else None,
        up=_linear("fc1", "mlp", hidden, inner),
        down=_linear("fc2", "mlp", inner, hidden),
        norms=tuple(_norm(name, hidden) for name in names if decodes or not name.startswith("encoder")),
        norm_first=spec.norm_first,
        activation=spec.activation,
        dropout=spec.residual_dropout,
        activation_dropout=spec.activation_dropout,
    )


def _attention(spec: BartSpec, name: str, heads: int, *, causal: bool = False, across: bool = False) -> StackAttention:
    query, key, value, output = (
        _linear(f"{name}.{part}", "attention", spec.hidden_size, spec.hidden_size)
        for part in ("q_proj", "k_proj", "v_proj", "out_proj")
    )
    return StackAttention(
        query=query,
        key=key,
        value=value,
        output=output,
        num_heads=heads,
        causal=causal,
        across=across,
        dropout=spec.attention_dropout,
    )


def _norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size, bias=True)


def _linear(name: str, kind: str, ins: int, outs: int) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=True)

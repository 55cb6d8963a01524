"""Whisper: two convolutions take audio to the encoder's fixed number of positions, a decoder writes text.

Field names and defaults are those of transformers 5.23 (``models/whisper/configuration_whisper.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.architecture import Embedded
from service.estimator.model.config_reader import Config, flag, head_dim, integer, number, refuse, word
from service.estimator.model.modules.layers.encoder_decoder import StackAttention, StackLayer
from service.estimator.model.recording import Recording
from service.estimator.model.shared_inputs import passing_of
from service.estimator.model.trees.encoder_decoder import WALKER, Encoder, EncoderDecoder, EncoderDecoderSpec, check_stacks
from service.estimator.model.weights.tensors import Linear, Norm, Weight
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, bytes_of
from service.estimator.tape.ops.elementwise import add, chain, dropout, from_input
from service.estimator.tape.ops.images import patches, pixels_of
from service.estimator.tape.ops.products import embedding, integers
from service.estimator.values.workload import Attention as Kernel

KERNEL = 3
FRAMES_PER_POSITION = 2
"""The second convolution has a stride of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperSpec(EncoderDecoderSpec):
    """A Whisper; ``source_positions`` are the encoder's, each of two audio frames of ``num_mel_bins``."""

    num_mel_bins: int = 80
    source_positions: int = 1500


SPEC = WhisperSpec


def whisper(config: Config) -> WhisperSpec:
    """Return a Whisper."""
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        refuse(config, name, modelled="0")
    refuse(config, "apply_spec_augment", modelled="false")
    hidden, heads = integer(config, "d_model", 384), integer(config, "decoder_attention_heads", 6)
    rate = number(config, "dropout", 0.0)
    return WhisperSpec(
        family="whisper",
        vocab_size=integer(config, "vocab_size", 51865),
        hidden_size=hidden,
        num_hidden_layers=integer(config, "decoder_layers", 4),
        num_encoder_layers=integer(config, "encoder_layers", 4),
        num_attention_heads=heads,
        encoder_attention_heads=integer(config, "encoder_attention_heads", 6),
        num_key_value_heads=heads,
        head_dim=head_dim(config, hidden, heads),
        intermediate_size=integer(config, "decoder_ffn_dim", 1536),
        encoder_intermediate_size=integer(config, "encoder_ffn_dim", 1536),
        activation=word(config, "activation_function", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=flag(config, "tie_word_embeddings", default=True),
        rotary=False,
        max_position_embeddings=integer(config, "max_target_positions", 448),
        attention_dropout=number(config, "attention_dropout", 0.0),
        residual_dropout=rate,
        embedding_dropout=rate,
        activation_dropout=number(config, "activation_dropout", 0.0),
        num_mel_bins=integer(config, "num_mel_bins", 80),
        source_positions=integer(config, "max_source_positions", 1500),
    )


def build(spec: WhisperSpec) -> EncoderDecoder:
    """Return the tree of a Whisper."""
    check_stacks(spec)
    hidden = spec.hidden_size
    table = Weight("decoder.embed_tokens.weight", "embedding", (spec.vocab_size, hidden))
    places = Weight("decoder.embed_positions.weight", "embedding", (spec.max_position_embeddings, hidden))
    waves = Weight("encoder.embed_positions.weight", "embedding", (spec.source_positions, hidden))
    norms = tuple(_norm(f"{stack}.layer_norm", hidden) for stack in ("encoder", "decoder"))
    return EncoderDecoder(
        spec=spec,
        embedding=table,
        position_embedding=places,
        blocks=((_layer(spec, decodes=False), spec.num_encoder_layers), (_layer(spec, decodes=True), spec.num_hidden_layers)),
        final_norm=norms[1],
        head=Linear(name="proj_out", kind="lm_head", in_features=hidden, out_features=spec.vocab_size),
        stem=(*_convolutions(spec), waves, *norms[0].weights()),
        never_trained=frozenset({waves.name}),
        masks=(),
        walker=WALKER,
        embed=lambda run, tokens: _text(run, tokens, places, spec),
        encoder=Encoder(
            inputs=lambda run: _features(run, spec),
            embed=lambda run, features: _audio(run, features, spec),
            finish=lambda run, x: run.norm(norms[0], x, ""),
            length=spec.source_positions,
            frames_per_position=FRAMES_PER_POSITION,
        ),
        finish_decoder=lambda run, x: run.norm(norms[1], x, ""),
        clamps_half=True,
        ignores_padding=True,
        shifts_labels=False,
        upcasts_logits=False,
    )


def _convolutions(spec: WhisperSpec) -> Iterator[Weight]:
    """Yield weight and bias of both convolutions."""
    for name, channels in (("conv1", spec.num_mel_bins), ("conv2", spec.hidden_size)):
        yield Weight(f"encoder.{name}.weight", "other", (spec.hidden_size, channels, KERNEL))
        yield Weight(f"encoder.{name}.bias", "other", (spec.hidden_size,))


def _features(run: Recording, spec: WhisperSpec) -> Value:
    """Return the audio that comes with a batch, in the dtype of the weights."""
    frames = spec.source_positions * FRAMES_PER_POSITION
    return pixels_of(run.tape, sizes.per_sequence(spec.num_mel_bins * frames), run.dtype)


def _audio(run: Recording, features: Value, spec: WhisperSpec) -> Embedded:
    """Record ``WhisperEncoder.forward`` up to its first layer; its positions are never trained."""
    tape, hidden, positions = run.tape, spec.hidden_size, spec.source_positions
    weights = run.parameters(_convolutions(spec), "")
    frames = sizes.per_sequence(hidden * positions * FRAMES_PER_POSITION)
    first = patches(tape, features, weights[0], weights[1], frames)
    if run.checkpointed and run.lora is not None:
        tape.require_grad(first)  # PEFT's enable_input_require_grads finds the first convolution
    heard = chain(tape, first, from_input)
    second = chain(tape, heard, lambda t, x: patches(t, x, weights[2], weights[3], run.extent.tokens(hidden)))
    inputs = chain(tape, second, from_input)
    ids = integers(tape, run.extent.positions(1))
    shared = run.extent.positions(hidden)
    waves = Value(tape.allocate(Category.ACTIVATIONS, bytes_of(shared, run.dtype)), shared, run.dtype)
    placed = chain(tape, waves, lambda t, y: add(t, inputs, y))
    x = chain(tape, placed, lambda t, y: dropout(t, y, spec.embedding_dropout))
    return Embedded(x=x, named=False, names=(inputs, ids))


def _text(run: Recording, tokens: Value, places: Weight, spec: WhisperSpec) -> Embedded:
    """Record ``WhisperDecoder.forward`` up to its first layer."""
    tape = run.tape
    ids = integers(tape, run.extent.tokens(1))
    placed = embedding(tape, run.parameter(places), ids, run.extent.tokens(spec.hidden_size))
    x = chain(tape, add(tape, tokens, placed), lambda t, y: dropout(t, y, spec.embedding_dropout))
    if run.attention is not Kernel.EAGER:
        return Embedded(x=x, named=False, names=(tokens, ids, placed))
    mask = integers(tape, run.extent.mask(run.dtype.bytes_per_element), bytes_each=1)
    passing_of(run).masks["own"] = mask
    return Embedded(x=x, named=False, names=(tokens, ids, placed), passed=(mask,))


def _layer(spec: WhisperSpec, *, decodes: bool) -> StackLayer:
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
        norm_first=True,
        activation=spec.activation,
        dropout=spec.residual_dropout,
        activation_dropout=spec.activation_dropout,
    )


def _attention(spec: WhisperSpec, name: str, heads: int, *, causal: bool = False, across: bool = False) -> StackAttention:
    hidden = spec.hidden_size
    query, value, output = (_linear(f"{name}.{part}", "attention", hidden, hidden) for part in ("q_proj", "v_proj", "out_proj"))
    return StackAttention(
        query=query,
        key=_linear(f"{name}.k_proj", "attention", hidden, hidden, bias=False),
        value=value,
        output=output,
        num_heads=heads,
        causal=causal,
        across=across,
        head_major=True,
        dropout=spec.attention_dropout,
    )


def _norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size, bias=True)


def _linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = True) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

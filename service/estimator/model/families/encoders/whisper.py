"""Whisper: an audio encoder and a text decoder.

Two convolutions take audio to the encoder's fixed number of positions. Field names and defaults are
those of transformers 5.23 (``models/whisper/configuration_whisper.py``).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from service.estimator.model.architecture import EmbeddingOutput
from service.estimator.model.config_reader import (
    Config,
    read_flag,
    read_fraction,
    read_head_dim,
    read_integer,
    read_string,
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
from service.estimator.tape.ledger import Category
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.ops.elementwise import activate_saving_input, add, chain, dropout
from service.estimator.tape.ops.images import embed_patches
from service.estimator.tape.ops.products import allocate_integers, embedding
from service.estimator.values.workload import Attention as Kernel

KERNEL = 3
FRAMES_PER_POSITION = 2
"""The second convolution has a stride of two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhisperSpec(EncoderDecoderSpec):
    """Numbers of a Whisper model.

    ``source_positions`` are the encoder's, each of two audio frames of ``num_mel_bins``.
    """

    num_mel_bins: int = 80
    source_positions: int = 1500


SPEC = WhisperSpec


def whisper(config: Config) -> WhisperSpec:
    """Return a Whisper."""
    for name in ("encoder_layerdrop", "decoder_layerdrop"):
        refuse_field(config, name, modelled="0")
    refuse_field(config, "apply_spec_augment", modelled="false")
    hidden, heads = (
        read_integer(config, "d_model", 384),
        read_integer(config, "decoder_attention_heads", 6),
    )
    rate = read_fraction(config, "dropout", 0.0)
    return WhisperSpec(
        family="whisper",
        vocab_size=read_integer(config, "vocab_size", 51865),
        hidden_size=hidden,
        num_hidden_layers=read_integer(config, "decoder_layers", 4),
        num_encoder_layers=read_integer(config, "encoder_layers", 4),
        num_attention_heads=heads,
        encoder_attention_heads=read_integer(config, "encoder_attention_heads", 6),
        num_key_value_heads=heads,
        head_dim=read_head_dim(config, hidden, heads),
        intermediate_size=read_integer(config, "decoder_ffn_dim", 1536),
        encoder_intermediate_size=read_integer(config, "encoder_ffn_dim", 1536),
        activation=read_string(config, "activation_function", "gelu"),
        norm="layer",
        gated=False,
        tie_word_embeddings=read_flag(config, "tie_word_embeddings", default=True),
        rotary=False,
        max_position_embeddings=read_integer(config, "max_target_positions", 448),
        attention_dropout=read_fraction(config, "attention_dropout", 0.0),
        residual_dropout=rate,
        embedding_dropout=rate,
        activation_dropout=read_fraction(config, "activation_dropout", 0.0),
        num_mel_bins=read_integer(config, "num_mel_bins", 80),
        source_positions=read_integer(config, "max_source_positions", 1500),
    )


def build(spec: WhisperSpec) -> EncoderDecoder:
    """Return the tree of a Whisper."""
    check_stacks(spec)
    hidden = spec.hidden_size
    table = Weight("decoder.embed_tokens.weight", "embedding", (spec.vocab_size, hidden))
    position_table = Weight(
        "decoder.embed_positions.weight", "embedding", (spec.max_position_embeddings, hidden)
    )
    audio_positions = Weight(
        "encoder.embed_positions.weight", "embedding", (spec.source_positions, hidden)
    )
    norms = tuple(_build_norm(f"{stack}.layer_norm", hidden) for stack in ("encoder", "decoder"))
    return EncoderDecoder(
        spec=spec,
        embedding=table,
        position_embedding=position_table,
        blocks=(
            (_build_layer(spec, decodes=False), spec.num_encoder_layers),
            (_build_layer(spec, decodes=True), spec.num_hidden_layers),
        ),
        final_norm=norms[1],
        head=Linear(
            name="proj_out", kind="lm_head", in_features=hidden, out_features=spec.vocab_size
        ),
        stem=(*_iter_convolution_weights(spec), audio_positions, *norms[0].weights()),
        never_trained=frozenset({audio_positions.name}),
        fixed=frozenset({audio_positions.name}),
        masks=(),
        walker=WALKER,
        embed=lambda ctx, tokens: _embed_text(ctx, tokens, position_table, spec),
        encoder=Encoder(
            inputs=lambda ctx: _allocate_features(ctx, spec),
            embed=lambda ctx, features: _embed_audio(ctx, features, spec),
            finish=lambda ctx, x: ctx.norm(norms[0], x, ""),
            length=spec.source_positions,
            frames_per_position=FRAMES_PER_POSITION,
        ),
        finish_decoder=lambda ctx, x: ctx.norm(norms[1], x, ""),
        clamps_half=True,
        ignores_padding=True,
        shifts_labels=False,
        upcasts_logits=False,
    )


def _iter_convolution_weights(spec: WhisperSpec) -> Iterator[Weight]:
    """Yield weight and bias of both convolutions."""
    for name, channels in (("conv1", spec.num_mel_bins), ("conv2", spec.hidden_size)):
        yield Weight(f"encoder.{name}.weight", "other", (spec.hidden_size, channels, KERNEL))
        yield Weight(f"encoder.{name}.bias", "other", (spec.hidden_size,))


def _allocate_features(ctx: Recording, spec: WhisperSpec) -> Value:
    """Allocate the audio features of a batch.

    They are in the dtype of the weights.
    """
    frames = spec.source_positions * FRAMES_PER_POSITION
    return ctx.take_input(sizes.per_sequence(spec.num_mel_bins * frames))


def _embed_audio(ctx: Recording, features: Value, spec: WhisperSpec) -> EmbeddingOutput:
    """Record ``WhisperEncoder.forward`` up to its first layer.

    Its positions are never trained.
    """
    tape, hidden, positions = ctx.tape, spec.hidden_size, spec.source_positions
    weights = ctx.parameters(_iter_convolution_weights(spec), "")
    frames = sizes.per_sequence(hidden * positions * FRAMES_PER_POSITION)
    first = embed_patches(tape, features, weights[0], weights[1], frames)
    convolved = chain(tape, first, activate_saving_input)
    second = chain(
        tape,
        convolved,
        lambda t, x: embed_patches(t, x, weights[2], weights[3], ctx.shape.tokens(hidden)),
    )
    inputs = chain(tape, second, activate_saving_input)
    ids = allocate_integers(tape, ctx.shape.positions(1))
    shared = ctx.shape.positions(hidden)
    position_embeddings = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(shared, ctx.settings.dtype)),
        shared,
        ctx.settings.dtype,
    )
    placed = chain(tape, position_embeddings, lambda t, y: add(t, inputs, y))
    x = chain(tape, placed, lambda t, y: dropout(t, y, spec.embedding_dropout))
    return EmbeddingOutput(x=x, x_is_local=False, names=(inputs, ids))


def _embed_text(
    ctx: Recording, tokens: Value, position_table: Weight, spec: WhisperSpec
) -> EmbeddingOutput:
    """Record ``WhisperDecoder.forward`` up to its first layer."""
    tape = ctx.tape
    ids = allocate_integers(tape, ctx.shape.tokens(1))
    placed = embedding(tape, ctx.parameter(position_table), ids, ctx.shape.tokens(spec.hidden_size))
    x = chain(tape, add(tape, tokens, placed), lambda t, y: dropout(t, y, spec.embedding_dropout))
    if ctx.settings.attention is not Kernel.EAGER:
        return EmbeddingOutput(x=x, x_is_local=False, names=(tokens, ids, placed))
    mask = allocate_integers(
        tape, ctx.shape.mask(ctx.settings.dtype.bytes_per_element), bytes_each=1
    )
    get_shared_inputs(ctx).masks["own"] = mask
    return EmbeddingOutput(x=x, x_is_local=False, names=(tokens, ids, placed), layer_args=(mask,))


def _build_layer(spec: WhisperSpec, *, decodes: bool) -> EncoderDecoderLayer:
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
        norm_first=True,
        activation=spec.activation,
        dropout=spec.residual_dropout,
        activation_dropout=spec.activation_dropout,
    )


def _build_attention(
    spec: WhisperSpec,
    name: str,
    heads: int,
    *,
    causal: bool = False,
    is_cross_attention: bool = False,
) -> EncoderDecoderAttention:
    hidden = spec.hidden_size
    query, value, output = (
        _build_linear(f"{name}.{part}", "attention", hidden, hidden)
        for part in ("q_proj", "v_proj", "out_proj")
    )
    return EncoderDecoderAttention(
        query=query,
        key=_build_linear(f"{name}.k_proj", "attention", hidden, hidden, bias=False),
        value=value,
        output=output,
        num_heads=heads,
        causal=causal,
        is_cross_attention=is_cross_attention,
        head_major=True,
        dropout=spec.attention_dropout,
    )


def _build_norm(name: str, size: int) -> Norm:
    return Norm(name=name, style="layer", size=size, bias=True)


def _build_linear(name: str, kind: str, ins: int, outs: int, *, bias: bool = True) -> Linear:
    return Linear(name=name, kind=kind, in_features=ins, out_features=outs, bias=bias)

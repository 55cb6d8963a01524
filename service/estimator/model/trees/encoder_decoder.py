"""Encoder-decoder models.

The encoder runs once, and every layer of the decoder reads its output.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embed, Finish
from service.estimator.model.block_module import BlockModule
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder, check_sizes
from service.estimator.tape.nodes import Value
from service.estimator.values.errors import InvalidConfigError, InvalidInputError

Inputs = Callable[[Recording], Value]
LayerRuns = tuple[tuple[tuple[tuple[BlockModule, int], ...], int], ...]
WALKER = ("passes.encoder_decoder", "EncoderDecoderStep")
"""Module and class of the walk over both stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderSpec(DecoderSpec):
    """Numbers of an encoder-decoder model.

    Those of ``DecoderSpec`` are the decoder's.
    """

    num_encoder_layers: int
    encoder_attention_heads: int
    encoder_intermediate_size: int
    activation_dropout: float = 0.0


def check_stacks(spec: EncoderDecoderSpec) -> None:
    """Raise InvalidConfigError for numbers that neither stack can have."""
    check_decoder(spec)
    check_sizes(spec, "num_encoder_layers", "encoder_attention_heads", "encoder_intermediate_size")
    # Heads of a size of their own, as T5 has them, need not fill the width.
    fills = spec.num_attention_heads * spec.head_dim == spec.hidden_size
    if fills and spec.hidden_size % spec.encoder_attention_heads:
        message = (
            f"encoder_attention_heads {spec.encoder_attention_heads} does not divide hidden_size "
            f"{spec.hidden_size}"
        )
        raise InvalidConfigError(message, field="encoder_attention_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """Beginning and end of the encoder stack.

    ``inputs`` makes what comes with the batch beside the labels, ``embed`` takes it to the first
    layer, ``finish`` takes the last hidden state, which stays with the caller, to the tensor that
    the decoder reads.
    """

    inputs: Inputs
    embed: Embed
    finish: Finish
    length: int | None = None
    """Positions that every input has; None where they are the sequence's."""
    frames_per_position: int = 0
    """Audio frames that become one position, where the input is audio."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoder(Architecture):
    """Encoder-decoder model; ``blocks`` are the encoder's, then the decoder's.

    The other fields are the decoder's.
    """

    encoder: Encoder
    finish_decoder: Finish
    """From the decoder's last hidden state, which stays with the caller, to what the head reads."""
    scales_output: bool = False
    """Whether the decoder's output is multiplied by a constant before the head (T5)."""
    keeps_fp32: str = ""
    """Text that names the modules that transformers keeps in fp32 beside fp16 weights; empty for
    none.
    """
    clamps_half: bool = False
    """Whether layers clamp their hidden states in fp16, which backward keeps a copy for (Whisper's
    encoder).
    """
    biased: bool = False
    """Whether every attention has a bias of its own, for which SDPA has the memory-efficient kernel
    alone (T5).
    """
    ignores_padding: bool = False
    """Whether the encoder takes no mask of padding (Whisper)."""

    def stacks(self) -> tuple[LayerRuns, LayerRuns]:
        """Return the layer runs of the encoder and of the decoder."""
        runs = self.runs()
        first_decoder = next(
            index for index, (members, _) in enumerate(runs) if is_decoder_layer(members[0][0])
        )
        return runs[:first_decoder], runs[first_decoder:]

    def with_layers(self, num_layers: int) -> "EncoderDecoder":
        """Return the model with both stacks cut to their first layers.

        It is the whole model for the decoder's own depth.
        """
        if num_layers == self.num_hidden_layers:
            return self
        if not 1 <= num_layers < self.num_hidden_layers:
            message = f"num_layers is {num_layers}; the model has {self.num_hidden_layers}"
            raise InvalidInputError(message, field="num_layers")
        spec = self.spec
        assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of this module build
        num_encoder_layers = min(num_layers, spec.num_encoder_layers)
        decoder = tuple(pair for pair in self.blocks if is_decoder_layer(pair[0]))
        encoder = self.blocks[: len(self.blocks) - len(decoder)]
        return replace(
            self,
            spec=replace(spec, num_hidden_layers=num_layers, num_encoder_layers=num_encoder_layers),
            blocks=(*_cut_blocks(encoder, num_encoder_layers), *_cut_blocks(decoder, num_layers)),
        )


def _cut_blocks(
    blocks: tuple[tuple[BlockModule, int], ...], num_layers: int
) -> tuple[tuple[BlockModule, int], ...]:
    """Return the first layers of the blocks.

    Layers of one kind stand together.
    """
    kept_blocks = []
    for block, count in blocks:
        num_taken = min(count, num_layers)
        num_layers -= num_taken
        if num_taken:
            kept_blocks.append((block, num_taken))
    return tuple(kept_blocks)


def is_decoder_layer(block: BlockModule) -> bool:
    """Return whether a layer is a decoder's, which reads the encoder's output."""
    reads: bool = getattr(block, "reads_memory", False)
    return reads

"""A model of two stacks: an encoder that runs once, and a decoder whose every layer reads what it gave."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture, Embed, Finish
from service.estimator.model.block_module import BlockModule
from service.estimator.model.recording import Recording
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.decoder import check_decoder
from service.estimator.tape.nodes import Value
from service.estimator.values.errors import InvalidConfigError, InvalidInputError

Inputs = Callable[[Recording], Value]
Runs = tuple[tuple[tuple[tuple[BlockModule, int], ...], int], ...]
WALKER = ("passes.encoder_decoder", "EncoderDecoderStep")
"""Module and class of the walk over both stacks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EncoderDecoderSpec(DecoderSpec):
    """The numbers of two stacks; those of ``DecoderSpec`` are the decoder's."""

    num_encoder_layers: int
    encoder_attention_heads: int
    encoder_intermediate_size: int
    activation_dropout: float = 0.0


def check_stacks(spec: EncoderDecoderSpec) -> None:
    """Raise InvalidConfigError for numbers that neither stack can have."""
    check_decoder(spec)
    for name in ("num_encoder_layers", "encoder_attention_heads", "encoder_intermediate_size"):
        if getattr(spec, name) < 1:
            message = f"{name} is {getattr(spec, name)}; it must be 1 or more"
            raise InvalidConfigError(message, field=name)
    # Heads of a size of their own, as T5 has them, need not fill the width.
    fills = spec.num_attention_heads * spec.head_dim == spec.hidden_size
    if fills and spec.hidden_size % spec.encoder_attention_heads:
        message = f"encoder_attention_heads {spec.encoder_attention_heads} does not divide hidden_size {spec.hidden_size}"
        raise InvalidConfigError(message, field="encoder_attention_heads")


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """How the first stack begins and ends.

    ``inputs`` makes what comes with the batch beside the labels, ``embed`` takes it to the first layer, ``finish`` the last
    hidden state, which stays with the caller, to what the decoder reads.
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
    """A model whose ``blocks`` are the encoder's and then the decoder's; the other fields are the decoder's."""

    encoder: Encoder
    finish_decoder: Finish
    """From the decoder's last hidden state, which stays with the caller, to what the head reads."""
    scales_output: bool = False
    """Whether the decoder's output is multiplied by a constant before the head (T5)."""
    keeps_fp32: str = ""
    """Modules that transformers keeps in fp32 beside fp16 weights, in words; empty for none."""
    clamps_half: bool = False
    """Whether layers clamp their hidden states in fp16, which backward keeps a copy for (Whisper's encoder)."""
    biased: bool = False
    """Whether every attention has a bias of its own, for which SDPA has the memory-efficient kernel alone (T5)."""
    ignores_padding: bool = False
    """Whether the encoder takes no mask of padding (Whisper)."""

    def stacks(self) -> tuple[Runs, Runs]:
        """Return the runs of the encoder's layers and those of the decoder's."""
        runs = self.runs()
        first = next(index for index, (members, _) in enumerate(runs) if reads_memory(members[0][0]))
        return runs[:first], runs[first:]

    def with_layers(self, num_layers: int) -> "EncoderDecoder":
        """Return the model with both stacks cut to their first layers; the whole model for the decoder's own depth."""
        if num_layers == self.num_hidden_layers:
            return self
        if not 1 <= num_layers < self.num_hidden_layers:
            message = f"num_layers is {num_layers}; the model has {self.num_hidden_layers}"
            raise InvalidInputError(message, field="num_layers")
        spec = self.spec
        assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of this module build
        kept = min(num_layers, spec.num_encoder_layers)
        decoder = tuple(pair for pair in self.blocks if reads_memory(pair[0]))
        encoder = self.blocks[: len(self.blocks) - len(decoder)]
        return replace(
            self,
            spec=replace(spec, num_hidden_layers=num_layers, num_encoder_layers=kept),
            blocks=(*_first(encoder, kept), *_first(decoder, num_layers)),
        )


def _first(blocks: tuple[tuple[BlockModule, int], ...], num_layers: int) -> tuple[tuple[BlockModule, int], ...]:
    """Return the first layers of kinds that stand together."""
    kept = []
    for block, count in blocks:
        taken = min(count, num_layers)
        num_layers -= taken
        if taken:
            kept.append((block, taken))
    return tuple(kept)


def reads_memory(block: BlockModule) -> bool:
    """Tell whether a layer is a decoder's, which reads what the encoder gave."""
    reads: bool = getattr(block, "reads_memory", False)
    return reads

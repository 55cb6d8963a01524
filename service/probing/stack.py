"""The layers of a model in the order in which they run, each of its kind, and the model with only some of them."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.encoder_decoder import EncoderDecoderSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class Stack:
    """The kind of every layer, as an index into ``Architecture.blocks``; the first ``num_encoder_layers`` are an encoder's."""

    kinds: tuple[int, ...]
    num_encoder_layers: int = 0

    @property
    def layers(self) -> tuple[int, ...]:
        """The places of all layers."""
        return tuple(range(len(self.kinds)))

    def encoder(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Return those of ``layers`` that are the encoder's."""
        return tuple(layer for layer in layers if layer < self.num_encoder_layers)

    def decoder(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Return the others, by their places in the decoder."""
        return tuple(layer - self.num_encoder_layers for layer in layers if layer >= self.num_encoder_layers)


def stack_of(architecture: Architecture) -> Stack:
    """Return the layers of a model; those of an image tower beside a text model are no layers of it."""
    counted = tuple(kind for kind, (_, count) in enumerate(architecture.blocks) for _ in range(count))
    spec = architecture.spec
    num_encoder_layers = spec.num_encoder_layers if isinstance(spec, EncoderDecoderSpec) else 0
    return Stack(kinds=architecture.order or counted, num_encoder_layers=num_encoder_layers)


def keep(architecture: Architecture, layers: Sequence[int]) -> Architecture:
    """Return the model with only these ``layers``."""
    stack = stack_of(architecture)
    if tuple(layers) == stack.layers:
        return architecture
    kinds = [stack.kinds[layer] for layer in layers]
    blocks, order = _blocks(architecture, kinds)
    cut = len(stack.kinds) - len(layers)
    return replace(
        architecture,
        spec=_spec(architecture, stack, layers),
        blocks=blocks,
        order=order,
        buffer_bytes=architecture.buffer_bytes - _buffers_beyond(architecture, kinds),
        buffer_elements=architecture.buffer_elements - architecture.layer_buffer_elements * cut,
        layer_buffer_bytes=_layer_buffers(architecture, kinds),
    )


def _blocks(architecture: Architecture, kinds: Sequence[int]) -> tuple[tuple[tuple[BlockModule, int], ...], tuple[int, ...]]:
    """Return the kinds that are left with their counts, and the order of the layers where equal ones do not stand together."""
    present = sorted(set(kinds))
    blocks = tuple((architecture.blocks[kind][0], kinds.count(kind)) for kind in present)
    return blocks, tuple(present.index(kind) for kind in kinds) if architecture.order else ()


def _spec(architecture: Architecture, stack: Stack, layers: Sequence[int]) -> DecoderSpec:
    spec = architecture.spec
    if isinstance(spec, EncoderDecoderSpec):
        return replace(spec, num_hidden_layers=len(stack.decoder(layers)), num_encoder_layers=len(stack.encoder(layers)))
    return replace(spec, num_hidden_layers=len(layers))


def _buffers_beyond(architecture: Architecture, kinds: Sequence[int]) -> int:
    sizes = zip(architecture.layer_buffer_bytes, architecture.blocks, strict=False)
    return sum(size * (count - kinds.count(kind)) for kind, (size, (_, count)) in enumerate(sizes))


def _layer_buffers(architecture: Architecture, kinds: Sequence[int]) -> tuple[int, ...]:
    sizes = architecture.layer_buffer_bytes
    return tuple(sizes[kind] for kind in sorted(set(kinds)) if kind < len(sizes))

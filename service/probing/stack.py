"""Layers of a model in execution order, and models with fewer layers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from service.estimator.model.architecture import Architecture
from service.estimator.model.block_module import BlockModule
from service.estimator.model.spec import DecoderSpec
from service.estimator.model.trees.encoder_decoder import EncoderDecoderSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerStack:
    """Kinds of all layers in execution order.

    A kind is an index into ``Architecture.blocks``; the first ``num_encoder_layers`` are an
    encoder's.
    """

    kinds: tuple[int, ...]
    num_encoder_layers: int = 0

    @property
    def layers(self) -> tuple[int, ...]:
        """Positions of all layers."""
        return tuple(range(len(self.kinds)))

    def select_encoder_layers(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Return those of ``layers`` that are the encoder's."""
        return tuple(layer for layer in layers if layer < self.num_encoder_layers)

    def select_decoder_layers(self, layers: Sequence[int]) -> tuple[int, ...]:
        """Return the decoder's of ``layers``, by their positions in the decoder."""
        return tuple(
            layer - self.num_encoder_layers for layer in layers if layer >= self.num_encoder_layers
        )


def get_layer_stack(architecture: Architecture) -> LayerStack:
    """Return the layers of a model.

    Those of an image tower beside a text model are no layers of it.
    """
    counted = tuple(
        kind for kind, (_, count) in enumerate(architecture.blocks) for _ in range(count)
    )
    spec = architecture.spec
    num_encoder_layers = spec.num_encoder_layers if isinstance(spec, EncoderDecoderSpec) else 0
    return LayerStack(kinds=architecture.order or counted, num_encoder_layers=num_encoder_layers)


def keep_layers(architecture: Architecture, layers: Sequence[int]) -> Architecture:
    """Return the model with only these ``layers``."""
    stack = get_layer_stack(architecture)
    if tuple(layers) == stack.layers:
        return architecture
    kinds = [stack.kinds[layer] for layer in layers]
    blocks, order = _select_blocks(architecture, kinds)
    cut = len(stack.kinds) - len(layers)
    return replace(
        architecture,
        spec=_shrink_spec(architecture, stack, layers),
        blocks=blocks,
        order=order,
        buffer_bytes=architecture.buffer_bytes - _count_dropped_buffer_bytes(architecture, kinds),
        buffer_elements=architecture.buffer_elements - architecture.layer_buffer_elements * cut,
        layer_buffer_bytes=_select_layer_buffers(architecture, kinds),
    )


def _select_blocks(
    architecture: Architecture, kinds: Sequence[int]
) -> tuple[tuple[tuple[BlockModule, int], ...], tuple[int, ...]]:
    """Return the remaining kinds with their counts, and their order.

    The order is empty where equal layers stand together.
    """
    present = sorted(set(kinds))
    blocks = tuple((architecture.blocks[kind][0], kinds.count(kind)) for kind in present)
    return blocks, tuple(present.index(kind) for kind in kinds) if architecture.order else ()


def _shrink_spec(
    architecture: Architecture, stack: LayerStack, layers: Sequence[int]
) -> DecoderSpec:
    spec = architecture.spec
    if isinstance(spec, EncoderDecoderSpec):
        return replace(
            spec,
            num_hidden_layers=len(stack.select_decoder_layers(layers)),
            num_encoder_layers=len(stack.select_encoder_layers(layers)),
        )
    return replace(spec, num_hidden_layers=len(layers))


def _count_dropped_buffer_bytes(architecture: Architecture, kinds: Sequence[int]) -> int:
    sizes = zip(architecture.layer_buffer_bytes, architecture.blocks, strict=False)
    return sum(size * (count - kinds.count(kind)) for kind, (size, (_, count)) in enumerate(sizes))


def _select_layer_buffers(architecture: Architecture, kinds: Sequence[int]) -> tuple[int, ...]:
    sizes = architecture.layer_buffer_bytes
    return tuple(sizes[kind] for kind in sorted(set(kinds)) if kind < len(sizes))

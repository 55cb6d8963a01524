"""Work of models whose stacks have lengths of their own.

An encoder reads one, a decoder another, and every layer of the decoder reads what the encoder
returns.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.model.block_module import BlockModule
from service.estimator.model.trees.encoder_decoder import (
    EncoderDecoder,
    EncoderDecoderSpec,
    is_decoder_layer,
)
from service.estimator.model.weights.tensors import Linear
from service.estimator.values.units import ceil_div


@dataclass(frozen=True, slots=True, kw_only=True)
class StackWork:
    """Work of an encoder and a decoder.

    Lengths are None where they are the sequence's.
    """

    source_length: int | None
    target_length: int | None
    source_weights: int
    """Weights that positions of the encoder are multiplied with.

    The decoder's keys and values of them are among these.
    """
    target_weights: int
    width: int
    """Elements of query and of value that meet each key in a layer."""
    num_encoder_layers: int
    num_decoder_layers: int

    def get_lengths(self, sequence: int) -> tuple[int, int]:
        """Return a sequence's tokens in encoder and decoder."""
        return self.source_length or sequence, self.target_length or sequence

    def count_products(self, sequence: int) -> int:
        """Return the products of a sequence with the layers' weights."""
        source, target = self.get_lengths(sequence)
        return source * self.source_weights + target * self.target_weights

    def count_score_products(self, sequence: int) -> int:
        """Return the products of a sequence's scores, and of these with values.

        The decoder's mask hides half of its own.
        """
        source, target = self.get_lengths(sequence)
        encoder = self.num_encoder_layers * source * source
        decoder = self.num_decoder_layers * (ceil_div(target * target, 2) + target * source)
        return self.width * (encoder + decoder)


def count_stack_work(model: EncoderDecoder, *, target_length: int | None) -> StackWork:
    """Return the work of both stacks, layer by layer."""
    spec = model.spec
    assert isinstance(spec, EncoderDecoderSpec)  # noqa: S101 - what families of two stacks build
    encoder = [pair for pair in model.blocks if not is_decoder_layer(pair[0])]
    decoder = [pair for pair in model.blocks if is_decoder_layer(pair[0])]
    across = sum(times * _count_memory_weights(block) for block, times in decoder)
    return StackWork(
        source_length=model.encoder.length,
        target_length=target_length,
        source_weights=_count_weights(encoder) + across,
        target_weights=_count_weights(decoder) - across,
        width=2 * spec.num_attention_heads * spec.head_dim,
        num_encoder_layers=spec.num_encoder_layers,
        num_decoder_layers=spec.num_hidden_layers,
    )


def _count_weights(blocks: Iterable[tuple[BlockModule, int]]) -> int:
    return sum(times * _count_products(block.linears()) for block, times in blocks)


def _count_memory_weights(block: BlockModule) -> int:
    """Return the weights of a decoder's layer that read the encoder's output."""
    attention = getattr(block, "cross_attention", None)
    return 0 if attention is None else _count_products((attention.key, attention.value))


def _count_products(layers: Iterable[Linear]) -> int:
    return sum(layer.in_features * layer.out_features for layer in layers)

"""Placeholder gradients that are never read.

A weight whose product adds to its fp32 buffer itself still hands autograd a tensor. Transformer
Engine keeps one empty tensor per shape of weight for this (``get_dummy_wgrad``, module/base.py,
since 2.4), which lies in the allocator from the first backward on. Megatron Core takes them for
its own products since 0.14: the head's, and those of local layers (tensor_parallel/layers.py).
"""

from collections.abc import Iterator

from service.estimator.backends.megatron.shape import ExpertShape, LatentShape, RankShape
from service.estimator.backends.megatron.stages import StageLayers

BYTES_PER_ELEMENT = 2
"""Bytes per element: placeholders are of the weights' format, which has 16 bits here."""
MatrixShape = tuple[int, int]


def placeholder_bytes(shape: RankShape, layers: StageLayers) -> int:
    """Return the bytes of the placeholders of a stage.

    Weights of one shape share theirs, on all layers.
    """
    return BYTES_PER_ELEMENT * sum(
        rows * columns for rows, columns in set(_iter_weight_shapes(shape, layers))
    )


def _iter_weight_shapes(shape: RankShape, layers: StageLayers) -> Iterator[MatrixShape]:
    layers = layers.with_predictors(sparse=shape.experts is not None)
    if layers.dense or layers.sparse:
        yield from (
            _iter_attention(shape)
            if shape.latent is None
            else _iter_latent_attention(shape, shape.latent)
        )
    if layers.last:
        yield shape.vocabulary, shape.hidden
    if layers.predictors:
        yield shape.hidden // shape.tensor_parallel, 2 * shape.hidden
    if layers.dense:
        yield from _iter_mlp(shape, shape.inner)
    if layers.sparse and shape.experts is not None:
        yield from _iter_experts(shape, shape.experts)


def _iter_attention(shape: RankShape) -> Iterator[MatrixShape]:
    yield shape.query + 2 * shape.key, shape.hidden
    yield shape.hidden, shape.query


def _iter_latent_attention(shape: RankShape, latent: LatentShape) -> Iterator[MatrixShape]:
    query, small = shape.heads * (latent.nope_dim + latent.rope_dim), latent.query_latent
    yield query, small or shape.hidden
    if small:
        yield small, shape.hidden
    yield latent.key_value_latent + latent.rope_dim, shape.hidden
    yield shape.heads * (latent.nope_dim + latent.value_dim), latent.key_value_latent
    yield shape.hidden, shape.heads * latent.value_dim


def _iter_experts(shape: RankShape, experts: ExpertShape) -> Iterator[MatrixShape]:
    yield from _iter_mlp(shape, experts.inner)
    if experts.shared_inner:
        yield from _iter_mlp(shape, experts.shared_inner)


def _iter_mlp(shape: RankShape, inner: int) -> Iterator[MatrixShape]:
    yield inner * (2 if shape.gated else 1), shape.hidden
    yield shape.hidden, inner

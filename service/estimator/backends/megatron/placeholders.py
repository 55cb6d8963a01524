"""Gradients that are never read: a weight whose product adds to its fp32 buffer itself still hands autograd a tensor.

Transformer Engine keeps one empty tensor per shape of weight for this (``get_dummy_wgrad``, module/base.py, since 2.4), which
lies in the allocator from the first backward on. Megatron Core makes the head's anew each time (tensor_parallel/layers.py).
"""

from collections.abc import Iterator

from service.estimator.backends.megatron.shape import ExpertShape, LatentShape, Shape
from service.estimator.backends.megatron.stages import StageLayers

WIDTH = 2
"""Bytes per element: placeholders are of the weights' format, which has 16 bits here."""
Rectangle = tuple[int, int]


def placeholder_bytes(shape: Shape, layers: StageLayers) -> int:
    """Return the bytes of the placeholders of a stage: weights of one shape share theirs, on all layers."""
    return WIDTH * sum(rows * columns for rows, columns in set(_rectangles(shape, layers)))


def _rectangles(shape: Shape, layers: StageLayers) -> Iterator[Rectangle]:
    yield from _attention(shape) if shape.latent is None else _latent(shape, shape.latent)
    if layers.dense:
        yield from _feeding(shape, shape.inner)
    if layers.sparse and shape.experts is not None:
        yield from _experts(shape, shape.experts)


def _attention(shape: Shape) -> Iterator[Rectangle]:
    yield shape.query + 2 * shape.key, shape.hidden
    yield shape.hidden, shape.query


def _latent(shape: Shape, latent: LatentShape) -> Iterator[Rectangle]:
    query, small = shape.heads * (latent.passed + latent.turned), latent.query_latent
    yield query, small or shape.hidden
    if small:
        yield small, shape.hidden
    yield latent.key_value_latent + latent.turned, shape.hidden
    yield shape.heads * (latent.passed + latent.value), latent.key_value_latent
    yield shape.hidden, shape.heads * latent.value


def _experts(shape: Shape, experts: ExpertShape) -> Iterator[Rectangle]:
    yield from _feeding(shape, experts.inner)
    if experts.shared_inner:
        yield from _feeding(shape, experts.shared_inner)


def _feeding(shape: Shape, inner: int) -> Iterator[Rectangle]:
    yield inner * (2 if shape.gated else 1), shape.hidden
    yield shape.hidden, inner

"""Tensors of a question whose size is the one that was requested.

A request that failed is one tensor, and its printed size has three or more digits: with the model
and the batch at hand it is often that of one tensor alone. The allocator asks the driver for
multiples of 2 MiB from 10 MiB on (c10/cuda/CUDACachingAllocator.cpp, ``get_allocation_size``),
which is what its message prints.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from service.estimator.values.units import MIB, ceil_div
from service.estimator.values.workload import TrainWorkload
from service.formats.failures.failure import Span
from service.formats.failures.places import LOSS, PREFILL, Place
from service.usecases.questions.fit import FitQuestion

_SMALLEST = 10 * MIB
"""Smaller requests are made in segments of one size, which name nothing."""
_ROUNDING = 2 * MIB
_WIDTHS = (4, 2)
_MOST = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorMatch:
    """A tensor of the requested size, with its place if any."""

    name: str
    formula: str
    num_bytes: int
    term: str
    place: Place | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    name: str
    sizes: tuple[int, ...]
    term: str
    place: Place | None = None


def name_tensors(question: FitQuestion, requested: Span) -> tuple[TensorMatch, ...]:
    """Return the tensors that have the requested size, by its digits."""
    if requested.low < _SMALLEST:
        return ()
    matches: dict[str, TensorMatch] = {}
    for shape in _iter_shapes(question):
        for width in _WIDTHS:
            num_bytes = prod(shape.sizes) * width
            if _is_requested(num_bytes, requested) and shape.name not in matches:
                sizes = " x ".join(f"{size:,}" for size in shape.sizes)
                matches[shape.name] = TensorMatch(
                    name=shape.name,
                    formula=f"{sizes} x {width} B",
                    num_bytes=num_bytes,
                    term=shape.term,
                    place=shape.place,
                )
    return tuple(matches.values())[:_MOST]


def find_place_by_size(matches: tuple[TensorMatch, ...]) -> Place | None:
    """Return the place of all tensors of a size.

    ``None`` where they have several, or none.
    """
    places = {None if match.place is None else match.place.what for match in matches}
    return matches[0].place if len(places) == 1 and matches else None


def _is_requested(num_bytes: int, requested: Span) -> bool:
    rounded = ceil_div(num_bytes, _ROUNDING) * _ROUNDING
    return any(requested.low <= size <= requested.high for size in (num_bytes, rounded))


def _iter_shapes(question: FitQuestion) -> Iterator[_Shape]:
    """Yield the shapes of a pass, then those of the weights."""
    spec, architecture = question.architecture.spec, question.architecture
    workload = question.workload
    batch = workload.num_sequences
    if isinstance(workload, TrainWorkload):
        length, place = workload.sequence_length, LOSS
    else:
        length, place = workload.prompt_tokens, PREFILL
    ranks = question.layout.tensor_parallel
    vocabulary = getattr(spec, "vocab_size", 0)
    for positions in (length, length - 1) if isinstance(vocabulary, int) else ():
        for share in sorted({1, ranks}):
            sizes = (batch, positions, ceil_div(vocabulary, share))
            yield _Shape(name="logits", sizes=sizes, term="logits", place=place)
    heads = getattr(spec, "num_attention_heads", 0)
    if isinstance(heads, int) and heads:
        scores = (batch, heads // ranks or 1, length, length)
        yield _Shape(name="attention scores", sizes=scores, term="activations")
    for name, word in (
        ("intermediate_size", "intermediate states of a feed-forward layer"),
        ("hidden_size", "hidden states"),
    ):
        size = getattr(spec, name, 0)
        if isinstance(size, int) and size:
            yield _Shape(name=word, sizes=(batch, length, size), term="activations")
    for weight, _ in architecture.counts.tensors:
        yield _Shape(name=f"{weight.name} or its like", sizes=tuple(weight.shape), term="weights")

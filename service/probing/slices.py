"""Which layers to run so that every kind of layer is known: few of each, and one more of each kind in turn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.probing.lines import decides
from service.probing.stack import Stack, stack_of

PERIODIC_FAMILIES = frozenset({"jamba"})
"""Families whose config says by a period which layer is of which kind, so that it can be cut to neighbouring layers only."""
BASE_SIZES = (2, 1)
"""Layers of each kind in the smallest slice, best first. A kind of which one layer is run has none that is neither the first
nor the last, and the first one's input is the embedding's output, which no layer keeps (llama-3.2-1b: +0.06 % of forward)."""
_SHORTEST_WINDOW = 3
"""Layers of which one is neither the first nor the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some layers of a model, and why they are run."""

    layers: tuple[int, ...]
    why: str


def whole(architecture: Architecture) -> Slice:
    """Return all layers."""
    return Slice(layers=stack_of(architecture).layers, why="the whole model")


def slicings(architecture: Architecture, *, adapted: bool) -> Iterator[tuple[Slice, ...]]:
    """Yield the slicings that decide the whole model, best first; none where the best is no smaller than the model.

    ``adapted``: below the first adapter nothing needs a gradient, so that the first layer is like no other.
    """
    stack = stack_of(architecture)
    if architecture.shares_weights:
        return
    if architecture.family in PERIODIC_FAMILIES:
        found = [_windows(stack)]
    else:
        sizes = BASE_SIZES[:1] if adapted else BASE_SIZES
        found = [_by_kind(stack, size) for size in sizes]
    for slices in found:
        if any(len(one.layers) >= len(stack.layers) for one in slices):
            return
        if slices and _decided(stack, slices):
            yield slices


def check_slice(architecture: Architecture, slices: Sequence[Slice]) -> Slice | None:
    """Return a deeper slice that the others predict, so that what they say can be held against it; None without room."""
    stack, deepest = stack_of(architecture), max(slices, key=lambda one: len(one.layers))
    if architecture.family in PERIODIC_FAMILIES:
        return None
    layers = set(deepest.layers)
    for kind in set(stack.kinds):
        layers |= set([layer for layer in stack.layers if stack.kinds[layer] == kind and layer not in layers][:1])
    if len(layers) in {len(stack.layers), len(deepest.layers)}:
        return None
    return Slice(layers=tuple(sorted(layers)), why="one more of each: whether bytes are linear in depth")


def _by_kind(stack: Stack, size: int) -> tuple[Slice, ...]:
    """Return the first and the last layers of each kind, and slices with one more of one kind."""
    places = {kind: [layer for layer in stack.layers if stack.kinds[layer] == kind] for kind in dict.fromkeys(stack.kinds)}
    last = stack.layers[-1]
    base = {layer for own in places.values() for layer in _chosen(own, size, last)}
    slices = [Slice(layers=tuple(sorted(base)), why=_base_words(len(places), size))]
    for own in places.values():
        if more := [layer for layer in own if layer not in base][:1]:
            like = "" if len(places) == 1 else f" like layer {own[0]}"
            why = f"one more layer{like}: what each of {len(own)} adds"
            slices.append(Slice(layers=tuple(sorted(base | set(more))), why=why))
    return tuple(slices)


def _base_words(num_kinds: int, size: int) -> str:
    each = "" if num_kinds == 1 else f" of each of {num_kinds} kinds"
    return f"{size} layer{'s' if size > 1 else ''}{each}: what does not depend on depth"


def _chosen(own: Sequence[int], size: int, last: int) -> tuple[int, ...]:
    """Return ``size`` layers of a kind: its first ones, and the model's last where that is of the kind."""
    if last in own and len(own) > size > 1:
        return (*own[: size - 1], last)
    return tuple(own[:size])


def _windows(stack: Stack) -> tuple[Slice, ...]:
    """Return the fewest layers that stand together and decide the whole model."""
    depth = len(stack.layers)
    known: dict[tuple[int, ...], Slice] = {}
    for length in range(_SHORTEST_WINDOW, depth):
        for start in range(depth - length + 1):
            layers = stack.layers[start : start + length]
            kinds = stack.kinds[start : start + length]
            known.setdefault(kinds, Slice(layers=layers, why=f"layers {layers[0]} to {layers[-1]}, of {len(set(kinds))} kinds"))
        if _decided(stack, tuple(known.values())):
            return _needed(stack, tuple(known.values()))
    return ()


def _needed(stack: Stack, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """Return the slices without those that nothing is missing without, the longest tried first."""
    kept = list(slices)
    for one in sorted(slices, key=lambda each: -len(each.layers)):
        others = [other for other in kept if other is not one]
        if _decided(stack, tuple(others)):
            kept = others
    return tuple(kept)


def _decided(stack: Stack, slices: tuple[Slice, ...]) -> bool:
    return decides(([stack.kinds[layer] for layer in one.layers] for one in slices), stack.kinds)

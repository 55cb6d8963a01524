"""Layer slices that determine the memory of the full model.

They have few layers of each kind, and one more of each kind in turn.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from service.estimator.model.architecture import Architecture
from service.estimator.model.recorded.narrowing import is_recorded
from service.probing.lines import is_determined
from service.probing.stack import LayerStack, get_layer_stack

PERIODIC_FAMILIES = frozenset({"jamba"})
"""Families whose config gives the layers' kinds by a period.

Such a model can be cut to neighbouring layers only.
"""
BASE_SIZES = (2, 1)
"""Layers of each kind in the smallest slice, best first. A kind of which one layer is run has none
that is neither the first nor the last, and the first one's input is the embedding's output, which
no layer keeps (llama-3.2-1b: +0.06 % of forward).
"""
_SHORTEST_WINDOW = 3
"""Layers of which one is neither the first nor the last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """Some layers of a model and the reason to run them."""

    layers: tuple[int, ...]
    why: str


def get_full_slice(architecture: Architecture) -> Slice:
    """Return the slice of all layers."""
    return Slice(layers=get_layer_stack(architecture).layers, why="the whole model")


def iter_slicings(architecture: Architecture, *, adapted: bool) -> Iterator[tuple[Slice, ...]]:
    """Yield the slicings that determine the full model, best first.

    None are yielded where the best is no smaller than the model.

    ``adapted``: below the first adapter nothing needs a gradient, so that the first layer is like
    no other.
    """
    stack = get_layer_stack(architecture)
    if architecture.shares_weights or is_recorded(architecture):
        return
    if architecture.family in PERIODIC_FAMILIES:
        candidates = [_find_windows(stack)]
    else:
        sizes = BASE_SIZES[:1] if adapted else BASE_SIZES
        candidates = [_slice_by_kind(stack, size) for size in sizes]
    for slices in candidates:
        if any(len(layer_slice.layers) >= len(stack.layers) for layer_slice in slices):
            return
        if slices and _is_determined(stack, slices):
            yield slices


def find_check_slice(architecture: Architecture, slices: Sequence[Slice]) -> Slice | None:
    """Return a deeper slice that the others predict.

    What they say can be checked against it; None where there is none.
    """
    stack, deepest = (
        get_layer_stack(architecture),
        max(slices, key=lambda layer_slice: len(layer_slice.layers)),
    )
    if architecture.family in PERIODIC_FAMILIES:
        return None
    layers = set(deepest.layers)
    for kind in set(stack.kinds):
        layers |= set(
            [layer for layer in stack.layers if stack.kinds[layer] == kind and layer not in layers][
                :1
            ],
        )
    if len(layers) in {len(stack.layers), len(deepest.layers)}:
        return None
    return Slice(
        layers=tuple(sorted(layers)), why="one more of each: whether bytes are linear in depth"
    )


def _slice_by_kind(stack: LayerStack, size: int) -> tuple[Slice, ...]:
    """Return a base slice, and slices with one more layer.

    The base has the first and the last layers of each kind; each other slice has one more of one
    kind.
    """
    places = {
        kind: [layer for layer in stack.layers if stack.kinds[layer] == kind]
        for kind in dict.fromkeys(stack.kinds)
    }
    last = stack.layers[-1]
    base = {
        layer
        for kind_layers in places.values()
        for layer in _choose_layers(kind_layers, size, last)
    }
    slices = [Slice(layers=tuple(sorted(base)), why=_describe_base(len(places), size))]
    for kind_layers in places.values():
        if more := [layer for layer in kind_layers if layer not in base][:1]:
            like = "" if len(places) == 1 else f" like layer {kind_layers[0]}"
            why = f"one more layer{like}: what each of {len(kind_layers)} adds"
            slices.append(Slice(layers=tuple(sorted(base | set(more))), why=why))
    return tuple(slices)


def _describe_base(num_kinds: int, size: int) -> str:
    suffix = "" if num_kinds == 1 else f" of each of {num_kinds} kinds"
    return f"{size} layer{'s' if size > 1 else ''}{suffix}: what does not depend on depth"


def _choose_layers(kind_layers: Sequence[int], size: int, last: int) -> tuple[int, ...]:
    """Return ``size`` layers of a kind.

    They are its first ones, and the model's last where that is of the kind.
    """
    if last in kind_layers and len(kind_layers) > size > 1:
        return (*kind_layers[: size - 1], last)
    return tuple(kind_layers[:size])


def _find_windows(stack: LayerStack) -> tuple[Slice, ...]:
    """Return the fewest contiguous layers that determine the full model."""
    depth = len(stack.layers)
    slices_by_kinds: dict[tuple[int, ...], Slice] = {}
    for length in range(_SHORTEST_WINDOW, depth):
        for start in range(depth - length + 1):
            layers = stack.layers[start : start + length]
            kinds = stack.kinds[start : start + length]
            slices_by_kinds.setdefault(
                kinds,
                Slice(
                    layers=layers,
                    why=f"layers {layers[0]} to {layers[-1]}, of {len(set(kinds))} kinds",
                ),
            )
        if _is_determined(stack, tuple(slices_by_kinds.values())):
            return _drop_redundant(stack, tuple(slices_by_kinds.values()))
    return ()


def _drop_redundant(stack: LayerStack, slices: tuple[Slice, ...]) -> tuple[Slice, ...]:
    """Return the slices without redundant ones.

    The longest are tried first.
    """
    remaining = list(slices)
    for candidate in sorted(slices, key=lambda layer_slice: -len(layer_slice.layers)):
        reduced = [item for item in remaining if item is not candidate]
        if _is_determined(stack, tuple(reduced)):
            remaining = reduced
    return tuple(remaining)


def _is_determined(stack: LayerStack, slices: tuple[Slice, ...]) -> bool:
    return is_determined(
        ([stack.kinds[layer] for layer in layer_slice.layers] for layer_slice in slices),
        stack.kinds,
    )

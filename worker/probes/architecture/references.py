"""Values and storages that steps refer to by number."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from worker.probes.architecture.steps import (
    BoundaryStep,
    CacheStep,
    HandedOn,
    LinearStep,
    LoopStep,
    NodeStep,
    OperationStep,
    ReleaseStep,
    Step,
)

Rename = Callable[[int], int]


def sign_shape(step: Step) -> object:
    """Return what a step is, without its numbers and sizes."""
    if isinstance(step, OperationStep):
        lengths = (len(step.inputs), len(step.outputs), len(step.allocated), len(step.scratch))
        return (step.operator, *lengths, *map(_sign_node, step.nodes))
    if isinstance(step, CacheStep):
        return ("cache update", len(step.parts), len(step.joined), step.window)
    if isinstance(step, LinearStep):
        return step.layer
    if isinstance(step, BoundaryStep):
        return (step.module, step.entered, len(step.inputs), len(step.outputs))
    return type(step).__name__


def _sign_node(node: NodeStep) -> object:
    return (
        node.name,
        [place is None for place in (*node.outputs, *node.saved_before, *node.saved_after)],
        len(node.saved_before),
        [event[:2] for event in node.events],
        [
            (part.value is None, part.parameter, part.allocated, part.incoming, part.is_view)
            for part in node.gradients
        ],
    )


def list_values(step: Step) -> list[int]:
    """Return the values that a step refers to.

    Those of steps of one shape have the same order.
    """
    if isinstance(step, OperationStep):
        outputs = (place for node in step.nodes for place in node.outputs)
        targets = (part.value for node in step.nodes for part in node.gradients)
        optional = (*outputs, *targets)
        return [*step.inputs, *step.outputs, *(value for value in optional if value is not None)]
    if isinstance(step, CacheStep):
        return [*step.parts, *step.joined]
    if isinstance(step, LinearStep):
        return [step.x, step.output]
    if isinstance(step, BoundaryStep):
        return [*step.inputs, *step.outputs]
    return []


def list_step_storages(step: Step) -> list[int]:
    """Return the storages that a step refers to.

    Those of steps of one shape have the same order.
    """
    if isinstance(step, ReleaseStep):
        return [step.storage]
    if not isinstance(step, OperationStep):
        return []
    saved = (place for n in step.nodes for place in (*n.saved_before, *n.saved_after))
    return [*step.allocated, *(place for place in saved if place is not None)]


def list_step_sizes(step: Step) -> list[int]:
    """Return the bytes that a step takes beside its storages."""
    if not isinstance(step, OperationStep):
        return []
    return [*step.scratch, *(event[2] for node in step.nodes for event in node.events)]


def rename(step: Step, value: Rename, storage: Rename) -> Step:
    """Return a step with other numbers."""

    def all_of(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(map(value, numbers))

    if isinstance(step, OperationStep):
        return replace(
            step,
            inputs=all_of(step.inputs),
            outputs=all_of(step.outputs),
            moved=all_of(step.moved),
            allocated=tuple(map(storage, step.allocated)),
            nodes=[_rename_node(node, value, storage) for node in step.nodes],
        )
    if isinstance(step, CacheStep):
        return replace(step, parts=all_of(step.parts), joined=all_of(step.joined))
    if isinstance(step, LinearStep):
        return replace(step, x=value(step.x), output=value(step.output))
    if isinstance(step, BoundaryStep):
        return replace(step, inputs=all_of(step.inputs), outputs=all_of(step.outputs))
    return step if isinstance(step, LoopStep) else replace(step, storage=storage(step.storage))


def _rename_node(node: NodeStep, value: Rename, storage: Rename) -> NodeStep:
    def saved(places: tuple[int | None, ...]) -> tuple[int | None, ...]:
        return tuple(_rename_optional(places, storage))

    return replace(
        node,
        outputs=tuple(_rename_optional(node.outputs, value)),
        saved_before=saved(node.saved_before),
        saved_after=saved(node.saved_after),
        gradients=tuple(_rename_gradient(part, value) for part in node.gradients),
    )


def _rename_optional(numbers: tuple[int | None, ...], rename: Rename) -> Iterator[int | None]:
    return (None if number is None else rename(number) for number in numbers)


def _rename_gradient(part: HandedOn, value: Rename) -> HandedOn:
    return part if part.value is None else replace(part, value=value(part.value))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """Numbers of one turn by those of the turn before."""

    following: dict[int, int]
    carried: dict[int, int]
    produced: set[int]


def follow_turn(
    turn: Sequence[int], next_turn: Sequence[int], before: Sequence[int]
) -> Turn | None:
    """Return what of a turn is carried and made.

    None where the next one is no such turn.
    """
    following: dict[int, int] = {}
    earlier = set(before)
    for a, b in zip(turn, next_turn, strict=True):
        if following.setdefault(a, b) != b:
            return None
    produced = {a for a in following if a not in earlier}
    carried = {a: b for a, b in following.items() if a in earlier and a != b}
    if any(following[a] == a for a in produced) or any(
        b not in produced and b not in earlier for b in carried.values()
    ):
        return None
    return Turn(following=following, carried=carried, produced=produced)

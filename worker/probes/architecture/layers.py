"""Layers of a pass: their steps, inputs and outputs."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.lowering import Passes
from worker.probes.architecture.steps import (
    BoundaryStep,
    CacheStep,
    LinearStep,
    OperationStep,
    ReleaseStep,
    Step,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Slice:
    """The steps of one layer, its input and its output."""

    index: int
    steps: tuple[int, ...]
    x: int
    output: int


def find_layers(passes: Passes) -> tuple[str, list[tuple[int, int]]]:
    """Return the longest stack's prefix, and where its layers are called."""
    steps = passes.steps[0]
    stacks: dict[str, list[tuple[int, int]]] = {}
    open_entries: list[tuple[str, int]] = []
    for place, step in enumerate(steps):
        if not isinstance(step, BoundaryStep):
            continue
        if step.entered:
            open_entries.append((step.module, place))
            continue
        module, entered = open_entries.pop()
        match = re.fullmatch(r"(.*\.)\d+", module)
        is_inner = any(re.search(r"\.\d+(\.|$)", name) for name, _ in open_entries)
        if match and not is_inner:
            stacks.setdefault(match[1], []).append((entered, place))
    if not stacks:
        message = "this model has no stack of layers"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    prefix = max(stacks, key=lambda name: sum(b - a for a, b in stacks[name]))
    return prefix, stacks[prefix]


def slice_layers(passes: Passes, places: Sequence[tuple[int, int]]) -> tuple[list[Slice], set[int]]:
    """Return the slices of all layers, and the places of their steps."""
    steps = passes.steps[0]
    ends = [*(start for start, _ in places[1:]), _find_end(passes, places[-1])]
    producers = _list_producers(steps)
    slices, x = [], None
    for index, ((start, left), end) in enumerate(zip(places, ends, strict=True)):
        exit_step = steps[left]
        assert isinstance(exit_step, BoundaryStep)  # noqa: S101 - found as one
        if not exit_step.outputs:
            message = "a layer of this model returns no tensor"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        x = _find_input(steps, producers, places, index, x)
        slices.append(
            Slice(index=index, steps=tuple(range(start, end)), x=x, output=exit_step.outputs[0])
        )
        x = exit_step.outputs[0]
    return slices, {place for part in slices for place in part.steps}


def _find_end(passes: Passes, last: tuple[int, int]) -> int:
    """Return where the last layer's slice ends.

    What dies with its call belongs to it.
    """
    steps, (start, left) = passes.steps[0], last
    allocated = list_storages(passes, range(start, left))
    end = left + 1
    while end < len(steps):
        step = steps[end]
        if not (isinstance(step, ReleaseStep) and step.storage in allocated):
            break
        end += 1
    return end


def _list_producers(steps: Sequence[Step]) -> dict[int, int]:
    producers: dict[int, int] = {}
    for place, step in enumerate(steps):
        producers |= dict.fromkeys(list_outputs(step), place)
    return producers


def list_reads(step: Step) -> tuple[int, ...]:
    """Return the values that a step reads."""
    if isinstance(step, OperationStep):
        return step.inputs
    if isinstance(step, CacheStep):
        return step.parts
    return (step.x,) if isinstance(step, LinearStep) else ()


def _find_input(
    steps: Sequence[Step],
    producers: dict[int, int],
    places: Sequence[tuple[int, int]],
    index: int,
    before: int | None,
) -> int:
    """Return the value that a layer is called on.

    It is what the one before returned; of the first one, what takes its place there.
    """
    start, left = places[index]
    reads = [v for step in steps[start:left] for v in list_reads(step)]
    outer = list(dict.fromkeys(v for v in reads if producers.get(v, -1) < start))
    if before is not None:
        previous = range(places[index - 1][0], start)
        strangers = [v for v in outer if producers.get(v) in previous and v != before]
        if before not in outer or strangers:
            message = "layers of this model hand on more than one tensor"
            raise Refusal(FailureKind.UNSUPPORTED, message)
        return before
    if len(places) == 1:
        return outer[0]
    second_start, second_left = places[1]
    first_exit = steps[left]
    assert isinstance(first_exit, BoundaryStep)  # noqa: S101 - found as one
    later = [v for step in steps[second_start:second_left] for v in list_reads(step)]
    ordered = list(dict.fromkeys(v for v in later if producers.get(v, -1) < second_start))
    return outer[ordered.index(first_exit.outputs[0])]


def is_tensor(passes: Passes, value: int) -> bool:
    """Return whether a value is no weight."""
    return passes.passes[0].values[value].storage is not None


def list_outputs(step: Step) -> tuple[int, ...]:
    """Return the values that a step makes."""
    if isinstance(step, OperationStep):
        return step.outputs
    if isinstance(step, CacheStep):
        return step.joined
    return (step.output,) if isinstance(step, LinearStep) else ()


def list_storages(passes: Passes, places: Iterable[int]) -> set[int | None]:
    """Return the storages that steps make, linear layers' outputs among them."""
    steps, values = passes.steps[0], passes.passes[0].values
    storages: set[int | None] = set()
    for place in places:
        step = steps[place]
        if isinstance(step, OperationStep):
            storages |= set(step.allocated)
        elif isinstance(step, LinearStep):
            storages.add(values[step.output].storage)
    return storages


def list_mentions(step: Step) -> tuple[int, ...]:
    """Return the values that a step reads or hands gradients to."""
    reads = list_reads(step)
    if not isinstance(step, OperationStep):
        return reads
    targets = [g.value for node in step.nodes for g in node.gradients if g.value is not None]
    return (*reads, *targets)

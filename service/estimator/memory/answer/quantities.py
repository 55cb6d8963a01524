"""Reserved and device bytes with their intervals, and components."""

from dataclasses import dataclass

from service.estimator.memory.answer.allocator_intervals import (
    compute_allocated_interval,
    compute_reserved_interval,
    select_kinds,
)
from service.estimator.memory.answer.corrections import (
    correct_context,
    correct_slack,
    increase_context,
)
from service.estimator.memory.answer.full_gpu import (
    compute_device_interval,
    limit_slack,
    select_replay,
)
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.answer.slack import compute_slack
from service.estimator.memory.answer.workspaces import get_workspaces
from service.estimator.memory.intervals.ends import get_residual_ends
from service.estimator.memory.overheads.overheads import (
    Overhead,
    add_overheads,
    add_up,
    estimate_communicators,
    get_context_overhead,
)
from service.estimator.memory.question import Question
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.result import (
    Basis,
    Component,
    Detail,
    Interval,
)

_MAX_KEPT = 16
"""Kinds of GPUs and levels; few ask about a batch on more."""


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Quantities:
    """Reserved bytes, intervals, and the bytes outside of tensors.

    ``raised`` says whether a reading of a whole GPU raised the context, ``limited`` whether the
    GPU's memory limited the slack or the interval.
    """

    slack: Overhead
    workspaces: Overhead
    links: Overhead
    context: Overhead
    raised: bool
    reserved_bytes: int
    allocated_interval: Interval
    reserved_interval: Interval
    kinds: tuple[str, str]
    device_interval: Interval
    limited: bool

    def has_room(self, device: Device) -> bool:
        """Return whether a GPU's memory limits nothing of them."""
        point = self.reserved_bytes + self.context.point + self.links.point
        return max(point, self.device_interval.high) <= device.usable_bytes


Parts = tuple[Quantities, tuple[Component, ...]]


def compute_parts(partial_estimate: PartialEstimate, question: Question) -> Parts:
    """Return the quantities and components of a question.

    There are components where it is to be explained. Of a GPU that has room for all of it the
    memory changes neither: they are kept with the partial estimate.
    """
    corrections, device = question.corrections, question.device
    is_explained, level = question.detail.is_explained, question.level
    if corrections is not None:
        return _compute_parts(partial_estimate, question)
    kept: dict[object, Parts] = partial_estimate.in_room
    key = (*device.kind, level, is_explained)
    parts = kept.get(key)
    if parts is not None and parts[0].has_room(device):
        return parts
    parts = _compute_parts(partial_estimate, question)
    if not parts[0].limited:
        if len(kept) >= _MAX_KEPT:
            kept.clear()
        kept[key] = parts
    return parts


def _compute_parts(partial_estimate: PartialEstimate, question: Question) -> Parts:
    quantities = _compute_quantities(
        partial_estimate, question.corrections, question.device, question.level
    )
    return quantities, _build_components(partial_estimate, quantities, question.detail)


def _compute_quantities(
    partial_estimate: PartialEstimate,
    corrections: Corrections | None,
    device: Device,
    level: float,
) -> Quantities:
    """Return the reserved bytes, and what is on the device beside them."""
    allocated = partial_estimate.peak.allocated_bytes
    links = estimate_communicators(partial_estimate.linked_gpus)
    context = get_context_overhead(device.name, partial_estimate.run_kind)
    context = correct_context(context, links, corrections, level)
    workspaces = get_workspaces(device, partial_estimate.kind, partial_estimate.replayed)
    unlimited_slack = correct_slack(
        compute_slack(partial_estimate, level), allocated + workspaces.point, corrections
    )
    slack = limit_slack(
        unlimited_slack,
        allocated,
        device.usable_bytes - context.point - links.point - workspaces.point,
        partial_estimate.allocator,
        select_replay(partial_estimate, corrections),
    )
    reserved = allocated + workspaces.point + slack.point
    allocated_kind, reserved_kind = select_kinds(partial_estimate, device, reserved)
    allocated_interval = compute_allocated_interval(
        partial_estimate, corrections, level, allocated_kind
    )
    unlimited = add_up(workspaces, unlimited_slack)
    reserved_interval = compute_reserved_interval(
        partial_estimate,
        allocated_interval,
        unlimited,
        unlimited if slack is unlimited_slack else add_up(workspaces, slack),
        corrections,
        level,
        reserved_kind,
    )
    raised_context = increase_context(context, reserved + links.point, corrections, device)
    unlimited_interval = add_overheads(reserved_interval, (raised_context, links))
    is_judged = reserved_kind != partial_estimate.kind
    device_interval = compute_device_interval(
        unlimited_interval,
        raised_context.high + links.high,
        select_replay(partial_estimate, corrections),
        device,
        get_residual_ends(reserved_kind, "reserved", level)[1] if is_judged else None,
    )
    return Quantities(
        slack=slack,
        workspaces=workspaces,
        links=links,
        context=raised_context,
        raised=raised_context is not context,
        reserved_bytes=reserved,
        allocated_interval=allocated_interval,
        reserved_interval=reserved_interval,
        kinds=(allocated_kind, reserved_kind),
        device_interval=device_interval,
        limited=slack is not unlimited_slack or device_interval is not unlimited_interval,
    )


def _build_components(
    partial_estimate: PartialEstimate, quantities: Quantities, detail: Detail
) -> tuple[Component, ...]:
    if not detail.is_explained:
        return ()
    overheads = (
        _build_component("library_workspaces", quantities.workspaces),
        _build_component("allocator_slack", quantities.slack),
        _build_component("communication_buffers", quantities.links),
        _build_component("device_context", quantities.context),
    )
    # The level of the intervals changes none, nor mostly a GPU's memory.
    kept: dict[object, tuple[Component, ...]] = partial_estimate.merged
    components = kept.get(overheads)
    if components is None:
        components = _merge_components((*partial_estimate.components(), *overheads))
        if len(kept) >= _MAX_KEPT:
            kept.clear()
        kept[overheads] = components
    return components


def _build_component(name: str, overhead: Overhead) -> Component:
    return Component(name, overhead.point, Basis.FORMULA, overhead.formula, overhead.source)


def _merge_components(components: tuple[Component, ...]) -> tuple[Component, ...]:
    """Return the components in order, equal names added up.

    Empty components are left out.
    """
    merged: dict[str, Component] = {}
    for component in components:
        if component.bytes == 0:
            continue
        previous = merged.get(component.name)
        merged[component.name] = (
            component if previous is None else _add_components(previous, component)
        )
    return tuple(merged.values())


def _add_components(left: Component, right: Component) -> Component:
    formula, source = f"{left.formula} + {right.formula}", f"{left.source}; {right.source}"
    return Component(left.name, left.bytes + right.bytes, Basis.FORMULA, formula, source)

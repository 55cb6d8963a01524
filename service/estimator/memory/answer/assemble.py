"""Puts an answer together: moments, components, and the three quantities with their intervals."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from service.estimator.memory.allocator.pressure import under_pressure
from service.estimator.memory.allocator.replay import Replayed
from service.estimator.memory.allocator.slack import beside_streams, ratio_slack, replayed_slack, serving_slack
from service.estimator.memory.answer.corrections import (
    corrected_context,
    corrected_slack,
    error_at,
    measured_interval,
    raised_context,
)
from service.estimator.memory.intervals.ends import LEVEL, PER_MILLION, index_of, widened
from service.estimator.memory.intervals.table import ROUNDING
from service.estimator.memory.overheads.overheads import Share, communicators, device_context, interval
from service.estimator.values.corrections import LEAST_PER_MILLE, MOST_PER_MILLE, Corrections
from service.estimator.values.device import Device
from service.estimator.values.result import (
    Basis,
    CheckpointBytes,
    Component,
    Detail,
    Estimate,
    Instant,
    Interval,
    Serving,
    Stage,
)
from service.estimator.values.workload import Allocator

_REPLAYED_KINDS = frozenset({"training", "adapters", "sharded"})
"""Kinds whose residuals are those of replays."""
APPROXIMATE_PER_MILLE = (LEAST_PER_MILLE, MOST_PER_MILLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """What a task knows before the bytes outside of the allocator are added.

    ``linked_gpus`` share communicators; ``components`` is called when the answer is to explain itself.
    """

    num_gpus: int
    linked_gpus: int
    instants: tuple[Instant, ...]
    peak: Instant
    steady_bytes: int
    components: Callable[[], Iterable[Component]]
    phases: tuple[Instant, ...] = ()
    checkpoint: CheckpointBytes | None = None
    serving: Serving | None = None
    approximate: bool = False
    gathers: bool = False
    kind: str = "training"
    """The kind of answer whose residuals make the intervals."""
    allocator: Allocator = Allocator.DEFAULT
    replayed: Replayed | None = None
    host_bytes_per_node: int = 0
    host_memory_bytes: int | None = None
    """What a node's memory is, where the question says so."""
    nvme_bytes_per_node: int = 0
    nvme_bytes: int | None = None
    """What a node's NVMe is, where the question says so."""
    stream_bytes: int = 0
    """What the allocator's pools of streams beside the one that computes hold beyond the peak."""
    stages: tuple[Stage, ...] = ()
    """Every pipeline stage; empty where there is only one."""
    worst_stage: int = 0
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def assemble(
    draft: Draft,
    *,
    corrections: Corrections | None,
    device: Device | None = None,
    warnings: tuple[str, ...] = (),
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Return the answer: allocated, reserved and device bytes of the peak, each with an interval of the level.

    ``warnings`` are about the device; those of the draft and of its model stand before them.
    """
    allocated = draft.peak.allocated_bytes
    context, links = device_context(device.name if device is not None else ""), communicators(draft.linked_gpus)
    context = corrected_context(context, links, corrections, level)
    full = corrected_slack(_slack(draft, level), allocated, corrections)
    room = None if device is None else device.usable_bytes - context.point - links.point
    slack = full if room is None else under_pressure(full, allocated, room, draft.allocator)
    inside = _allocated_interval(draft, corrections, level)
    reserved = allocated + slack.point
    taken = _reserved_interval(draft, inside, full, slack, corrections, level)
    beside = context
    if corrections is not None and corrections.device_at_least_bytes and device is not None:
        # What was seen on a GPU that a job filled is no more than what it could have had.
        least = min(corrections.device_at_least_bytes, device.usable_bytes)
        context = raised_context(context, reserved + context.point + links.point, least)
    raised = context is not beside
    rested = _rested(corrections, raised=raised)
    return Estimate(
        num_gpus=draft.num_gpus,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=reserved + context.point + links.point,
        steady_bytes=draft.steady_bytes,
        allocated_interval=inside,
        reserved_interval=taken,
        device_interval=interval(taken, (context, links)),
        interval_level=level,
        interval_kind=draft.kind,
        peak_instant=draft.peak.name,
        components=() if detail is Detail.NUMBERS else _explained(draft, slack, links, context),
        instants=draft.instants,
        phases=draft.phases,
        stages=draft.stages or (Stage(0, allocated, draft.steady_bytes),),
        worst_pipeline_stage=draft.worst_stage,
        assumptions=draft.assumptions,
        host_bytes_per_node=draft.host_bytes_per_node,
        host_memory_bytes=draft.host_memory_bytes,
        nvme_bytes_per_node=draft.nvme_bytes_per_node,
        nvme_bytes=draft.nvme_bytes,
        checkpoint=draft.checkpoint,
        serving=draft.serving,
        warnings=(*draft.warnings, *_warnings(draft), *warnings, *_imported(corrections), *_seen(corrections, raised=raised)),
        basis=rested.basis if rested is not None else "analytic",
        calibration=rested.calibration if rested is not None else None,
        calibration_level=rested.level if rested is not None else "none",
        num_measurements=rested.num_measurements if rested is not None else 0,
        step_time_ratio=corrections.step_time_ratio if corrections is not None else 1.0,
    )


def _slack(draft: Draft, level: float) -> Share:
    allocated, kind = draft.peak.allocated_bytes, draft.allocator
    if draft.stream_bytes:
        return beside_streams(ratio_slack(allocated, kind, gathers=False, level=level), draft.stream_bytes)
    if draft.kind == "inference":
        return serving_slack(allocated, kind, level=level)
    if draft.replayed is None:
        return ratio_slack(allocated, kind, gathers=draft.gathers, level=level)
    return replayed_slack(draft.replayed)


def _allocated_interval(draft: Draft, corrections: Corrections | None, level: float) -> Interval:
    allocated = draft.peak.allocated_bytes
    if draft.approximate:
        low, high = APPROXIMATE_PER_MILLE
        return Interval(allocated * low // 1000, allocated * high // 1000)
    error, carried = None, True
    if corrections is not None:
        error, carried = error_at(corrections.relative_error, corrections.allocated_errors, level)
    residual = widened(allocated, allocated + _rounding(draft, level), draft.kind, "allocated", level)
    # What is there between steps is counted tensor by tensor: no reading of the peak is below it.
    analytic = Interval(max(residual.low, min(draft.steady_bytes, allocated)), residual.high)
    if corrections is None or error is None:
        return analytic
    learnt = Interval(allocated - round(allocated * error), allocated + round(allocated * error))
    if corrections.basis == "measured" or (corrections.conformal and carried):
        return learnt
    return Interval(min(learnt.low, analytic.low), max(learnt.high, analytic.high))


def _rounding(draft: Draft, level: float) -> int:
    """Return by how much the allocator's blocks exceed the tensors in them: at most, where no replay counted them."""
    if draft.replayed is None:
        return draft.peak.allocated_bytes * ROUNDING[index_of(level)] // PER_MILLION
    return max(draft.replayed.allocated_bytes - draft.replayed.peak_bytes, 0)


def _reserved_interval(
    draft: Draft, inside: Interval, slack: Share, pressed: Share, corrections: Corrections | None, level: float
) -> Interval:
    """Return the interval of the reserved bytes, which are never fewer than the allocated ones.

    A ratio has quantiles of its own; where the kind is never replayed, its residuals stand beside them. A job on a full GPU
    reserves what there is, however much more it would have reserved with room (``pressed``).
    """
    point = draft.peak.allocated_bytes + slack.point
    residual = widened(point, point, draft.kind, "reserved", level)
    low, high = residual.low, residual.high
    if draft.replayed is None:
        base = _base(draft, inside)
        least, most = base.low + slack.low, base.high + slack.high
        low, high = (least, most) if draft.kind in _REPLAYED_KINDS else (min(low, least), max(high, most))
    error, carried = None, True
    if corrections is not None:
        error, carried = error_at(corrections.reserved_error, corrections.reserved_errors, level)
    taken = measured_interval(point, error, Interval(low, high), carried=carried)
    low = min(max(taken.low, inside.low), draft.peak.allocated_bytes + pressed.point)
    return Interval(low, max(taken.high, inside.high))


def _warnings(draft: Draft) -> tuple[str, ...]:
    host = draft.host_memory_bytes
    if host is not None and draft.host_bytes_per_node > host:
        return (f"the host is too small: {draft.host_bytes_per_node:,} B are kept on a node of {host:,} B",)
    nvme = draft.nvme_bytes
    if nvme is not None and draft.nvme_bytes_per_node > nvme:
        return (f"the NVMe is too small: {draft.nvme_bytes_per_node:,} B are swapped to a node's {nvme:,} B",)
    if not draft.approximate:
        return ()
    return ("only the number of parameters is known: the shape is a stand-in of that size, and the interval says so",)


def _imported(corrections: Corrections | None) -> tuple[str, ...]:
    count = corrections.num_imported if corrections is not None else 0
    if not count:
        return ()
    return (f"rests on {count} imported measurement{'s' if count > 1 else ''}: that this is what ran there is only claimed",)


def _seen(corrections: Corrections | None, *, raised: bool) -> tuple[str, ...]:
    if corrections is None or not raised:
        return ()
    count = corrections.num_seen
    readings = f"{count} imported reading{'s' if count > 1 else ''}"
    return (f"device_bytes are raised to {corrections.device_at_least_bytes:,} B, which {readings} saw on such a GPU in use",)


def _rested(corrections: Corrections | None, *, raised: bool) -> Corrections | None:
    """Return what the answer rests on: what was only seen counts where it raised something."""
    if corrections is None or corrections.basis != "analytic":
        return corrections
    return replace(corrections, basis="calibrated", level="key", num_measurements=corrections.num_seen) if raised else None


def _base(draft: Draft, inside: Interval) -> Interval:
    """Return the allocated bytes that the outer quantities rest on: a point, unless the model itself is only roughly known."""
    return inside if draft.approximate else Interval(draft.peak.allocated_bytes, draft.peak.allocated_bytes)


def _explained(draft: Draft, slack: Share, links: Share, context: Share) -> tuple[Component, ...]:
    outside = (
        _component("allocator_slack", slack),
        _component("communication_buffers", links),
        _component("device_context", context),
    )
    return _merged((*draft.components(), *outside))


def _component(name: str, share: Share) -> Component:
    return Component(name, share.point, Basis.FORMULA, share.formula, share.source)


def _merged(components: tuple[Component, ...]) -> tuple[Component, ...]:
    """Return the components with equal names added up, in order; empty ones are left out."""
    merged: dict[str, Component] = {}
    for component in components:
        if component.bytes == 0:
            continue
        known = merged.get(component.name)
        merged[component.name] = component if known is None else _sum(known, component)
    return tuple(merged.values())


def _sum(left: Component, right: Component) -> Component:
    formula, source = f"{left.formula} + {right.formula}", f"{left.source}; {right.source}"
    return Component(left.name, left.bytes + right.bytes, Basis.FORMULA, formula, source)

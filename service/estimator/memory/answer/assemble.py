"""Assemble an estimate from peaks, components and overheads.

It states the three quantities (allocated, reserved and device bytes), each with its interval.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from service.estimator.memory.allocator.pressure import limit_slack
from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.allocator.slack import (
    add_stream_pools,
    estimate_ratio_slack,
    estimate_serving_slack,
    get_replayed_slack,
)
from service.estimator.memory.answer.corrections import (
    apply_measured_error,
    correct_context,
    correct_slack,
    increase_context,
    select_error,
)
from service.estimator.memory.intervals.ends import (
    LEVEL,
    PER_MILLION,
    get_level_index,
    get_residual_ends,
)
from service.estimator.memory.intervals.table import ROUNDING
from service.estimator.memory.overheads.overheads import (
    Overhead,
    add_overheads,
    estimate_communicators,
    get_context_overhead,
)
from service.estimator.values.corrections import MAX_PER_MILLE, MIN_PER_MILLE, Corrections
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
APPROXIMATE_PER_MILLE = (MIN_PER_MILLE, MAX_PER_MILLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialEstimate:
    """Estimate of a task before the bytes outside of the allocator.

    ``linked_gpus`` share communicators; ``components`` is called when the answer is to explain
    itself.
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
    replayed: ReplayResult | None = None
    host_bytes_per_node: int = 0
    host_memory_bytes: int | None = None
    """Memory of a node, where the question states it."""
    nvme_bytes_per_node: int = 0
    nvme_bytes: int | None = None
    """NVMe of a node, where the question states it."""
    stream_bytes: int = 0
    """Bytes beyond the peak in the allocator's pools of streams other than the computing one."""
    stages: tuple[Stage, ...] = ()
    """Every pipeline stage; empty where there is only one."""
    worst_stage: int = 0
    assumptions: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def assemble(
    partial_estimate: PartialEstimate,
    *,
    corrections: Corrections | None,
    device: Device | None = None,
    warnings: tuple[str, ...] = (),
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Return the estimate with its intervals of the given level.

    Allocated, reserved and device bytes are those of the peak. ``warnings`` are about the device;
    those of the partial estimate and of its model stand before them.
    """
    allocated = partial_estimate.peak.allocated_bytes
    context, links = (
        get_context_overhead(device.name if device is not None else ""),
        estimate_communicators(partial_estimate.linked_gpus),
    )
    context = correct_context(context, links, corrections, level)
    unlimited_slack = correct_slack(_compute_slack(partial_estimate, level), allocated, corrections)
    free_bytes = None if device is None else device.usable_bytes - context.point - links.point
    slack = (
        unlimited_slack
        if free_bytes is None
        else limit_slack(unlimited_slack, allocated, free_bytes, partial_estimate.allocator)
    )
    allocated_interval = _compute_allocated_interval(partial_estimate, corrections, level)
    reserved = allocated + slack.point
    reserved_interval = _compute_reserved_interval(
        partial_estimate, allocated_interval, unlimited_slack, slack, corrections, level
    )
    analytic_context = context
    if corrections is not None and corrections.device_at_least_bytes and device is not None:
        # What was seen on a GPU that a job filled is no more than what it could have had.
        seen_bytes = min(corrections.device_at_least_bytes, device.usable_bytes)
        context = increase_context(context, reserved + context.point + links.point, seen_bytes)
    raised = context is not analytic_context
    evidence = _select_evidence(corrections, raised=raised)
    return Estimate(
        num_gpus=partial_estimate.num_gpus,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=reserved + context.point + links.point,
        steady_bytes=partial_estimate.steady_bytes,
        allocated_interval=allocated_interval,
        reserved_interval=reserved_interval,
        device_interval=add_overheads(reserved_interval, (context, links)),
        interval_level=level,
        interval_kind=partial_estimate.kind,
        peak_instant=partial_estimate.peak.name,
        components=()
        if detail is Detail.NUMBERS
        else _build_components(partial_estimate, slack, links, context),
        instants=partial_estimate.instants,
        phases=partial_estimate.phases,
        stages=partial_estimate.stages or (Stage(0, allocated, partial_estimate.steady_bytes),),
        worst_pipeline_stage=partial_estimate.worst_stage,
        assumptions=partial_estimate.assumptions,
        host_bytes_per_node=partial_estimate.host_bytes_per_node,
        host_memory_bytes=partial_estimate.host_memory_bytes,
        nvme_bytes_per_node=partial_estimate.nvme_bytes_per_node,
        nvme_bytes=partial_estimate.nvme_bytes,
        checkpoint=partial_estimate.checkpoint,
        serving=partial_estimate.serving,
        warnings=(
            *partial_estimate.warnings,
            *_list_memory_warnings(partial_estimate),
            *warnings,
            *_list_import_warnings(corrections),
            *_list_reading_warnings(corrections, raised=raised),
        ),
        basis=evidence.basis if evidence is not None else "analytic",
        calibration=evidence.calibration if evidence is not None else None,
        calibration_level=evidence.level if evidence is not None else "none",
        num_measurements=evidence.num_measurements if evidence is not None else 0,
        step_time_ratio=corrections.step_time_ratio if corrections is not None else 1.0,
    )


def _compute_slack(partial_estimate: PartialEstimate, level: float) -> Overhead:
    allocated, kind = partial_estimate.peak.allocated_bytes, partial_estimate.allocator
    if partial_estimate.stream_bytes:
        return add_stream_pools(
            estimate_ratio_slack(allocated, kind, gathers=False, level=level),
            partial_estimate.stream_bytes,
        )
    if partial_estimate.kind == "inference":
        return estimate_serving_slack(allocated, kind, level=level)
    if partial_estimate.replayed is None:
        return estimate_ratio_slack(allocated, kind, gathers=partial_estimate.gathers, level=level)
    return get_replayed_slack(partial_estimate.replayed)


def _compute_allocated_interval(
    partial_estimate: PartialEstimate, corrections: Corrections | None, level: float
) -> Interval:
    allocated = partial_estimate.peak.allocated_bytes
    if partial_estimate.approximate:
        low, high = APPROXIMATE_PER_MILLE
        return Interval(allocated * low // 1000, allocated * high // 1000)
    error, covered = None, True
    if corrections is not None:
        error, covered = select_error(
            corrections.relative_error, corrections.allocated_errors, level
        )
    low_ratio, high_ratio = get_residual_ends(partial_estimate.kind, "allocated", level)
    upper = allocated + _compute_rounding(partial_estimate, level)
    # What is there between steps is counted tensor by tensor: no reading of the peak is below it.
    analytic = Interval(
        max(allocated * low_ratio // PER_MILLION, min(partial_estimate.steady_bytes, allocated)),
        -(-upper * high_ratio // PER_MILLION),
    )
    if corrections is None or error is None:
        return analytic
    learnt = Interval(allocated - round(allocated * error), allocated + round(allocated * error))
    if corrections.basis == "measured" or (corrections.conformal and covered):
        return learnt
    return Interval(min(learnt.low, analytic.low), max(learnt.high, analytic.high))


def _compute_rounding(partial_estimate: PartialEstimate, level: float) -> int:
    """Return by how much the allocator's blocks exceed their tensors.

    It is an upper bound where no replay counted them.
    """
    if partial_estimate.replayed is None:
        return (
            partial_estimate.peak.allocated_bytes * ROUNDING[get_level_index(level)] // PER_MILLION
        )
    return max(partial_estimate.replayed.allocated_bytes - partial_estimate.replayed.peak_bytes, 0)


def _compute_reserved_interval(
    partial_estimate: PartialEstimate,
    allocated_interval: Interval,
    slack: Overhead,
    limited_slack: Overhead,
    corrections: Corrections | None,
    level: float,
) -> Interval:
    """Return the interval of the reserved bytes.

    They are never fewer than the allocated ones. A ratio has quantiles of its own; where the kind
    is never replayed, its residuals stand beside them. A job on a full GPU reserves what there is,
    however much more it would have reserved with room (``limited_slack``).
    """
    allocated = partial_estimate.peak.allocated_bytes
    point = allocated + slack.point
    low_ratio, high_ratio = get_residual_ends(partial_estimate.kind, "reserved", level)
    low, high = point * low_ratio // PER_MILLION, -(-point * high_ratio // PER_MILLION)
    if partial_estimate.replayed is None:
        # The allocated bytes are a point, unless the model itself is only roughly known.
        base_low = base_high = allocated
        if partial_estimate.approximate:
            base_low, base_high = allocated_interval.low, allocated_interval.high
        ratio_low, ratio_high = base_low + slack.low, base_high + slack.high
        low, high = (
            (ratio_low, ratio_high)
            if partial_estimate.kind in _REPLAYED_KINDS
            else (min(low, ratio_low), max(high, ratio_high))
        )
    if corrections is not None:
        error, covered = select_error(
            corrections.reserved_error, corrections.reserved_errors, level
        )
        measured = apply_measured_error(point, error, Interval(low, high), covered=covered)
        low, high = measured.low, measured.high
    return Interval(
        min(max(low, allocated_interval.low), allocated + limited_slack.point),
        max(high, allocated_interval.high),
    )


def _list_memory_warnings(partial_estimate: PartialEstimate) -> tuple[str, ...]:
    host = partial_estimate.host_memory_bytes
    if host is not None and partial_estimate.host_bytes_per_node > host:
        return (
            (
                f"the host is too small: {partial_estimate.host_bytes_per_node:,} B are kept on a "
                f"node of {host:,} B"
            ),
        )
    nvme = partial_estimate.nvme_bytes
    if nvme is not None and partial_estimate.nvme_bytes_per_node > nvme:
        return (
            (
                f"the NVMe is too small: {partial_estimate.nvme_bytes_per_node:,} B are swapped to "
                f"a node's {nvme:,} B"
            ),
        )
    if not partial_estimate.approximate:
        return ()
    return (
        (
            "only the number of parameters is known: the shape is a stand-in of that size, and the "
            "interval says so"
        ),
    )


def _list_import_warnings(corrections: Corrections | None) -> tuple[str, ...]:
    count = corrections.num_imported if corrections is not None else 0
    if not count:
        return ()
    return (
        (
            f"rests on {count} imported measurement{'s' if count > 1 else ''}: that this is what "
            "ran there is only claimed"
        ),
    )


def _list_reading_warnings(corrections: Corrections | None, *, raised: bool) -> tuple[str, ...]:
    if corrections is None or not raised:
        return ()
    count = corrections.num_seen
    readings = f"{count} imported reading{'s' if count > 1 else ''}"
    return (
        (
            f"device_bytes are raised to {corrections.device_at_least_bytes:,} B, which {readings} "
            "saw on such a GPU in use"
        ),
    )


def _select_evidence(corrections: Corrections | None, *, raised: bool) -> Corrections | None:
    """Return the corrections that count as evidence for the answer.

    Readings that were only seen count where they raised something.
    """
    if corrections is None or corrections.basis != "analytic":
        return corrections
    return (
        replace(corrections, basis="calibrated", level="key", num_measurements=corrections.num_seen)
        if raised
        else None
    )


def _build_components(
    partial_estimate: PartialEstimate, slack: Overhead, links: Overhead, context: Overhead
) -> tuple[Component, ...]:
    overheads = (
        _build_component("allocator_slack", slack),
        _build_component("communication_buffers", links),
        _build_component("device_context", context),
    )
    return _merge_components((*partial_estimate.components(), *overheads))


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

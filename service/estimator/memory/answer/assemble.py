"""Assemble an estimate from peaks, components and overheads.

It states the three quantities (allocated, reserved and device bytes), each with its interval.
"""

from dataclasses import dataclass, replace

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
from service.estimator.values.corrections import SHIPPED_SPEEDS, Corrections
from service.estimator.values.device import Device
from service.estimator.values.dtypes import DType
from service.estimator.values.result import (
    Basis,
    Component,
    Detail,
    Estimate,
    Interval,
    Serving,
    Stage,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Quantities:
    """Reserved bytes, intervals, and the bytes outside of tensors.

    ``raised`` says whether a reading of a whole GPU raised the context.
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


def assemble(partial_estimate: PartialEstimate, question: Question, dtype: DType) -> Estimate:
    """Return the estimate of a question that computes in a format.

    Its bytes are those of the peak, its intervals of the question's level.
    """
    corrections, device = question.corrections, question.device
    detail, level = question.detail, question.level
    quantities = _compute_quantities(partial_estimate, corrections, device, level)
    evidence = _select_evidence(corrections, raised=quantities.raised)
    allocated, reserved = partial_estimate.peak.allocated_bytes, quantities.reserved_bytes
    return Estimate(
        num_gpus=partial_estimate.num_gpus,
        allocated_bytes=allocated,
        reserved_bytes=reserved,
        device_bytes=reserved + quantities.context.point + quantities.links.point,
        steady_bytes=partial_estimate.steady_bytes,
        allocated_interval=quantities.allocated_interval,
        reserved_interval=quantities.reserved_interval,
        device_interval=quantities.device_interval,
        interval_level=level,
        interval_kind=partial_estimate.kind,
        allocated_kind=quantities.kinds[0],
        reserved_kind=quantities.kinds[1],
        replayed=detail.is_replayed and partial_estimate.replayed is not None,
        peak_instant=partial_estimate.peak.name,
        components=_build_components(partial_estimate, quantities, detail),
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
        serving=_complete_serving(partial_estimate.serving, question),
        warnings=(
            *partial_estimate.warnings,
            *_list_memory_warnings(partial_estimate),
            *device.list_warnings(dtype),
            *_list_import_warnings(corrections),
            *_list_reading_warnings(corrections, raised=quantities.raised),
            *question.effects,
        ),
        basis=evidence.basis if evidence is not None else "analytic",
        calibration=evidence.calibration if evidence is not None else None,
        calibration_level=evidence.level if evidence is not None else "none",
        num_measurements=evidence.num_measurements if evidence is not None else 0,
        bases=corrections.bases if corrections is not None else {},
        step_time_ratio=corrections.step_time_ratio if corrections is not None else 1.0,
        speeds=corrections.speeds if corrections is not None else SHIPPED_SPEEDS,
        machine_speeds=corrections.machine_speeds if corrections is not None else SHIPPED_SPEEDS,
        prefill_time_ratio=corrections.prefill_time_ratio if corrections is not None else 1.0,
    )


def _complete_serving(serving: Serving | None, question: Question) -> Serving | None:
    """Return a replica with the memory of its GPU and its release.

    It may have been explained for a GPU of the same kernels and other memory.
    """
    if serving is None:
        return None
    return replace(
        serving, budget_bytes=question.device.usable_bytes, engine_version=question.release
    )


def _compute_quantities(
    partial_estimate: PartialEstimate,
    corrections: Corrections | None,
    device: Device,
    level: float,
) -> _Quantities:
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
    return _Quantities(
        slack=slack,
        workspaces=workspaces,
        links=links,
        context=raised_context,
        raised=raised_context is not context,
        reserved_bytes=reserved,
        allocated_interval=allocated_interval,
        reserved_interval=reserved_interval,
        kinds=(allocated_kind, reserved_kind),
        device_interval=compute_device_interval(
            add_overheads(reserved_interval, (raised_context, links)),
            raised_context.high + links.high,
            select_replay(partial_estimate, corrections),
            device,
            None
            if reserved_kind == partial_estimate.kind
            else get_residual_ends(reserved_kind, "reserved", level)[1],
        ),
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
    partial_estimate: PartialEstimate, quantities: _Quantities, detail: Detail
) -> tuple[Component, ...]:
    if not detail.is_explained:
        return ()
    overheads = (
        _build_component("library_workspaces", quantities.workspaces),
        _build_component("allocator_slack", quantities.slack),
        _build_component("communication_buffers", quantities.links),
        _build_component("device_context", quantities.context),
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

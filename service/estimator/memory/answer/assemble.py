"""Assemble an estimate from peaks, components and overheads.

It states the three quantities (allocated, reserved and device bytes), each with its interval.
"""

from dataclasses import replace

from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.answer.quantities import compute_parts
from service.estimator.memory.question import Question
from service.estimator.values.corrections import SEEN, SHIPPED_SPEEDS, Corrections
from service.estimator.values.dtypes import DType
from service.estimator.values.result import (
    Estimate,
    Serving,
    Stage,
)


def assemble(partial_estimate: PartialEstimate, question: Question, dtype: DType) -> Estimate:
    """Return the estimate of a question that computes in a format.

    Its bytes are those of the peak, its intervals of the question's level.
    """
    corrections, device = question.corrections, question.device
    detail, level = question.detail, question.level
    quantities, components = compute_parts(partial_estimate, question)
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
        components=components,
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
        cluster_quantities=_list_cluster_quantities(corrections, raised=quantities.raised),
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
    budget, release = question.device.usable_bytes, question.release
    if serving.budget_bytes == budget and serving.engine_version == release:
        return serving
    return replace(serving, budget_bytes=budget, engine_version=release)


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


def _list_cluster_quantities(corrections: Corrections | None, *, raised: bool) -> tuple[str, ...]:
    """Return the quantities that a cluster's own measurements correct.

    Readings that were only seen count where they raised something.
    """
    quantities = corrections.cluster_quantities if corrections is not None else ()
    return tuple(name for name in quantities if raised or name != SEEN)

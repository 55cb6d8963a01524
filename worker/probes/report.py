"""The result that the service stores, from the runs of a plan."""

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from statistics import median, quantiles

import torch

from service.estimator.rules.obstacles import is_distributed
from service.jobs.contract import ProbeDevice, ProbeResult
from service.jobs.readings import InstantReading, Peaks, ProbeReading, StepTime
from service.probing.plan import ProbePlan
from worker.probes.answer import is_linear
from worker.probes.attention.names import Kernel
from worker.probes.ranks.parallelize import describe_rank
from worker.probes.run.backend import Backend, PointResult, ProbeSetup
from worker.probes.run.extrapolate import ExtrapolatedBytes, compute_instant_peaks

LOAD = "load"
_P95 = 18
"""Position of the 95th percentile among twentieths."""

_KERNEL_NOTES = {
    Kernel.FLASH: (
        "attention ran the CPU's flash kernel, which keeps what CUDA's keeps: query, key, value, "
        "output, log-sum-exp"
    ),
    Kernel.EFFICIENT: (
        "attention ran CUDA's memory-efficient operator in matrix products: it makes and keeps the "
        "same tensors"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RunContext:
    """The setup and the backend of the runs.

    ``difference`` describes what ran otherwise than on CUDA and could not be held to its choice.
    """

    setup: ProbeSetup
    backend: Backend
    difference: str | None = None


def report(
    plan: ProbePlan,
    results: tuple[PointResult, ...],
    answer: ExtrapolatedBytes,
    context: RunContext,
) -> ProbeResult:
    """Build the result of a plan.

    It has peaks and instants of the requested model, and the real runs under ``probes``.
    """
    full_run = (
        None
        if plan.extrapolated
        else next(result for result in results if result.reading.point == plan.target)
    )
    run_notes = tuple(dict.fromkeys(note for result in results for note in result.notes))
    difference = () if context.difference is None else (context.difference,)
    return ProbeResult(
        environment=build_environment(context),
        peaks=_build_peaks(
            max(num_bytes for name, num_bytes in answer.instants.items() if name != LOAD), full_run
        ),
        instants=_build_instants(
            answer.instants, {} if full_run is None else full_run.reading.allocator
        ),
        probes=tuple(build_probe_reading(result) for result in results),
        extrapolated=plan.extrapolated,
        steady_bytes=answer.steady_bytes,
        step_time_s=None if full_run is None else _compute_step_time(full_run.step_seconds),
        transferable=_is_transferable(results, answer, context),
        notes=(
            *plan.notes,
            *answer.notes,
            *_list_rank_notes(context),
            *_list_kernel_notes(context),
            *run_notes,
            *difference,
        ),
    )


def report_out_of_memory(
    plan: ProbePlan, results: Sequence[PointResult], context: RunContext
) -> ProbeResult:
    """Build the result of a plan that ran out of memory.

    Its last run did; the result has what was allocated then, and nothing beyond.
    """
    last = results[-1]
    peak_bytes = last.out_of_memory_at
    assert peak_bytes is not None  # noqa: S101 - what makes it the last
    point = last.reading.point
    where = f"{point.num_layers} of {plan.target.num_layers} layers with {point.num_tokens} tokens"
    return ProbeResult(
        environment=build_environment(context),
        peaks=_build_peaks(peak_bytes, last),
        instants=_build_instants(compute_instant_peaks(last.reading.live), last.reading.allocator),
        probes=tuple(build_probe_reading(result) for result in results),
        extrapolated=point != plan.target,
        transferable=False,
        notes=(
            f"memory ran out with {where}: the bytes are those that were held then",
            *last.notes,
        ),
    )


def _build_peaks(allocated_bytes: int, full_run: PointResult | None) -> Peaks:
    """Build the highest readings.

    Besides the allocated bytes only a run of the requested model itself has any.
    """
    if full_run is None:
        return Peaks(allocated_bytes=allocated_bytes)
    return Peaks(
        allocated_bytes=allocated_bytes,
        reserved_bytes=max(full_run.reserved.values()) if full_run.reserved else None,
        device_bytes=full_run.device_bytes,
        device_total_used_bytes=full_run.device_total_used_bytes,
        process_rss_bytes=full_run.resident_bytes,
        out_of_memory=full_run.out_of_memory_at is not None,
    )


def build_environment(context: RunContext) -> dict[str, str | int | None]:
    """Return the environment that the numbers depend on."""
    versions = {
        "torch": str(torch.__version__),
        "transformers": version("transformers"),
        "peft": version("peft"),
        "python": platform.python_version(),
    }
    layout = context.setup.layout
    ranks = {"rank": context.setup.rank, "ranks": layout.num_gpus} if is_distributed(layout) else {}
    return versions | context.backend.environment() | ranks


def _is_transferable(
    results: tuple[PointResult, ...], answer: ExtrapolatedBytes, context: RunContext
) -> bool:
    """Return whether the bytes may correct an estimate.

    An estimate is for the rank that holds most: the first.
    """
    undisturbed = context.difference is None and all(result.transferable for result in results)
    return undisturbed and is_linear(answer) and context.setup.rank == 0


def _list_rank_notes(context: RunContext) -> tuple[str, ...]:
    layout = context.setup.layout
    return describe_rank(layout, context.setup.rank) if is_distributed(layout) else ()


def _list_kernel_notes(context: RunContext) -> tuple[str, ...]:
    if context.backend.device is not ProbeDevice.CPU or context.setup.kernel not in _KERNEL_NOTES:
        return ()
    return (_KERNEL_NOTES[context.setup.kernel],)


def build_probe_reading(result: PointResult) -> ProbeReading:
    """Return what one run read."""
    reading, point = result.reading, result.reading.point
    instants = {LOAD: reading.load_bytes} | compute_instant_peaks(reading.live)
    return ProbeReading(
        num_layers=point.num_layers,
        micro_batch_size=point.micro_batch_size,
        sequence_length=point.sequence_length + point.output_tokens,
        output_tokens=point.output_tokens,
        instants=_build_instants(instants, reading.allocator),
        steady_bytes=reading.steady_bytes,
        process_rss_bytes=result.resident_bytes,
        step_time_s=_compute_step_time(result.step_seconds),
        prefill_time_s=_compute_step_time(result.prefill_seconds),
        at_peak=result.at_peak,
        out_of_memory=result.out_of_memory_at is not None,
        layers=point.layers,
        reserved_bytes=max(result.reserved.values()) if result.reserved else None,
        device_bytes=result.device_bytes,
        context_bytes=result.context_bytes,
    )


def _build_instants(
    live: Mapping[str, int], allocator_stretches: Mapping[str, int]
) -> tuple[InstantReading, ...]:
    allocator = compute_instant_peaks(allocator_stretches)
    return tuple(
        InstantReading(name=name, allocated_bytes=num_bytes, allocator_bytes=allocator.get(name))
        for name, num_bytes in live.items()
    )


def _compute_step_time(seconds: Iterable[float]) -> StepTime | None:
    ordered = sorted(seconds)
    if not ordered:
        return None
    high = quantiles(ordered, n=20, method="inclusive")[_P95] if len(ordered) > 1 else ordered[0]
    return StepTime(median=round(median(ordered), 6), p95=round(high, 6))

"""Readings of a GPU, of a model and of its slices."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from msgspec import structs

from service.base.typed import convert
from service.db.records.measurements import StoredResult
from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Detail
from service.jobs.readings import StepTime
from service.probing.stack import keep_layers
from service.usecases.learning.analytic_answers import AnalyticAnswer, estimate_on
from service.usecases.learning.sizes import make_task_at


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuReading:
    """Peaks and times of one run on a GPU.

    None is what was not read.
    """

    allocated_bytes: int
    reserved_bytes: int | None
    outside_bytes: int | None
    """Bytes of the process beside the allocator."""
    step_time_s: StepTime | None
    prefill_time_s: StepTime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceReading:
    """A run of some of the layers beside its own analytic answer."""

    analytic: AnalyticAnswer
    reading: GpuReading

    def extrapolate(self, target: AnalyticAnswer, measured: GpuReading) -> GpuReading:
        """Return the reading of the full model that this slice tells.

        What it reserved beyond the replay of its own layers is added to the full model's replay;
        what lies beside the allocator does not depend on depth. ``measured`` has the allocated
        bytes.
        """
        reserved, full = self.reading.reserved_bytes, target.estimate
        if reserved is None:
            return measured
        own = self.analytic.estimate
        beyond = reserved - self.reading.allocated_bytes - own.reserved_bytes + own.allocated_bytes
        slack = full.reserved_bytes - full.allocated_bytes
        return replace(
            measured,
            reserved_bytes=max(measured.allocated_bytes + slack + beyond, measured.allocated_bytes),
            outside_bytes=self.reading.outside_bytes,
        )


def read_gpu(result: StoredResult, analytic: AnalyticAnswer) -> GpuReading:
    """Return the reading of the requested model."""
    full_runs = [probe for probe in _iter_requested(result, analytic) if not result.extrapolated]
    # Slices come first, the whole model last.
    prefill = full_runs[-1].get("prefill_time_s") if full_runs else None
    return _make_reading({**result.peaks, "prefill_time_s": prefill}, result.step_time_s)


def read_slices(
    result: StoredResult, analytic: AnalyticAnswer, plans: PlanCache
) -> tuple[SliceReading, ...]:
    """Return the slices that ran the requested tokens, the deepest last.

    One is left out where the estimator has no answer to it.
    """
    slices = [
        slice_reading
        for probe in _iter_requested(result, analytic)
        if probe.get("layers")
        and probe.get("reserved_bytes")
        and (slice_reading := _read_slice(probe, analytic, plans)) is not None
    ]
    return tuple(sorted(slices, key=lambda part: part.analytic.architecture.num_hidden_layers))


def read_paces(
    result: StoredResult, analytic: AnalyticAnswer, plans: PlanCache
) -> tuple[SliceReading, ...]:
    """Return the timed runs of other tokens than the requested ones.

    Their bytes tell nothing of the question's, their times of its machine.
    """
    requested = {id(probe) for probe in _iter_requested(result, analytic)}
    return tuple(
        pace
        for probe in result.probes
        if id(probe) not in requested
        and probe.get("layers")
        and probe.get("step_time_s")
        and not probe.get("out_of_memory")
        # A time asks for no replay.
        and (pace := _read_slice(probe, _move_to_size(analytic, probe), plans, Detail.FULL))
        is not None
    )


def _move_to_size(analytic: AnalyticAnswer, probe: Mapping[str, Any]) -> AnalyticAnswer:
    """Return the question at the tokens of a run."""
    output_tokens = int(probe.get("output_tokens") or 0)
    point = replace(
        analytic.point,
        micro_batch_size=int(probe["micro_batch_size"]),
        sequence_length=int(probe["sequence_length"]) - output_tokens,
        output_tokens=output_tokens,
    )
    request = analytic.request
    return replace(
        analytic, request=structs.replace(request, task=make_task_at(request.task, point))
    )


def _iter_requested(result: StoredResult, analytic: AnalyticAnswer) -> Iterator[Mapping[str, Any]]:
    """Yield the runs of the requested tokens."""
    point = analytic.point
    size = point.micro_batch_size, point.sequence_length + point.output_tokens
    for probe in result.probes:
        if (probe["micro_batch_size"], probe["sequence_length"]) == size:
            yield probe


def _read_slice(
    probe: Mapping[str, Any],
    analytic: AnalyticAnswer,
    plans: PlanCache,
    detail: Detail = Detail.REPLAYED,
) -> SliceReading | None:
    request = analytic.request
    try:
        architecture = keep_layers(analytic.architecture, probe["layers"])
        predicted = estimate_on(analytic.device, architecture, request, plans=plans, detail=detail)
    except EstimatorError:
        return None
    allocated = max(int(instant["allocated_bytes"]) for instant in probe["instants"])
    return SliceReading(
        analytic=replace(analytic, architecture=architecture, estimate=predicted),
        reading=_make_reading({**probe, "allocated_bytes": allocated}, probe.get("step_time_s")),
    )


def _make_reading(peaks: Mapping[str, Any], step_time_s: Mapping[str, Any] | None) -> GpuReading:
    reserved = peaks.get("reserved_bytes")
    on_device = peaks.get("device_bytes") or peaks.get("device_total_used_bytes")
    return GpuReading(
        allocated_bytes=int(peaks["allocated_bytes"]),
        reserved_bytes=None if reserved is None else int(reserved),
        outside_bytes=None
        if reserved is None or on_device is None
        else int(on_device) - int(reserved),
        step_time_s=_read_time(step_time_s),
        prefill_time_s=_read_time(peaks.get("prefill_time_s")),
    )


def _read_time(document: Mapping[str, Any] | None) -> StepTime | None:
    return None if document is None else convert(document, StepTime)

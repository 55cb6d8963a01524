"""The result and the notes of a run on a GPU.

The result is what every device gives; the notes have what only a GPU can report.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from service.estimator.values.units import format_bytes
from service.estimator.values.workload import Allocator
from service.jobs.contract import Sample
from service.probing.plan import Point
from worker.nvml.sampler import Sampler
from worker.nvml.series import DEVICE_USED, POWER, PROCESS_USED, UTILIZATION
from worker.probes.attention.cuda_dispatch import describe_choice
from worker.probes.cuda.baseline import BaselineUnavailable, GpuBaseline
from worker.probes.cuda.run import OutOfMemory, RunOutcome
from worker.probes.cuda.watch import build_stretches, compute_reserved_by_stretch
from worker.probes.run import host
from worker.probes.run.backend import PointResult, ProbeSetup
from worker.probes.run.extrapolate import PointReading, get_instant
from worker.probes.run.session import build_reading

MAX_SAMPLES = 120
"""Samples of one kind in a result; the highest of those between is kept."""
_MILLI = 1000


@dataclass(slots=True, kw_only=True)
class DeviceObservations:
    """Observations of the GPU besides the allocator's.

    ``sampler`` is None where NVML gives no reading.
    """

    baseline: GpuBaseline | BaselineUnavailable
    sampler: Sampler | None
    expandable: bool | None
    has_history: bool = False
    """Whether the allocator recorded its history."""

    def enter(self, instant: str) -> None:
        """Label the readings from here on with this instant."""
        if self.sampler is not None:
            self.sampler.phase = instant

    @property
    def process_bytes(self) -> int | None:
        """The highest bytes of this process by NVML, None where not shown."""
        return None if self.sampler is None else _find_peak(self.sampler, PROCESS_USED)

    @property
    def used_bytes(self) -> int | None:
        """The highest bytes in use on the GPU, less the baseline.

        None where other processes came or went meanwhile.
        """
        if self.sampler is None or isinstance(self.baseline, BaselineUnavailable):
            return None
        if self.sampler.neighbours.has_changed or self.sampler.neighbours.is_ambiguous:
            return None
        peak_bytes = _find_peak(self.sampler, DEVICE_USED)
        return None if peak_bytes is None else peak_bytes - self.baseline.baseline_bytes


def build_result(
    setup: ProbeSetup, point: Point, outcome: RunOutcome, observations: DeviceObservations
) -> PointResult:
    """Build the result of a point from a run's outcome."""
    out_of_memory, baseline, sampler = (
        outcome.out_of_memory,
        observations.baseline,
        observations.sampler,
    )
    reading = _build_reading(point, outcome)
    return PointResult(
        reading=reading,
        step_seconds=outcome.seconds,
        prefill_seconds=outcome.prefill_seconds,
        resident_bytes=host.read_peak_resident_bytes(),
        reserved=_compute_reserved(outcome, reading),
        device_bytes=observations.process_bytes,
        device_total_used_bytes=observations.used_bytes,
        context_bytes=None if isinstance(baseline, BaselineUnavailable) else baseline.context_bytes,
        out_of_memory_at=None if out_of_memory is None else out_of_memory.counts.allocated_peak,
        samples=() if sampler is None else tuple(_iter_samples(sampler)),
        notes=tuple(_iter_notes(setup, outcome, observations)),
        transferable=sampler is None or not sampler.neighbours.has_changed,
    )


def _build_reading(point: Point, outcome: RunOutcome) -> PointReading:
    stretches = build_stretches(outcome.closed, workspace_bytes=outcome.workspace_bytes)
    if outcome.out_of_memory is None:
        return build_reading(point, stretches)
    counts = outcome.out_of_memory.counts
    loaded = next(
        (stretch.start for stretch in stretches if stretch.name == "load"), counts.requested
    )
    return PointReading(
        point=point,
        live={outcome.out_of_memory.stretch: counts.requested_peak},
        allocator={outcome.out_of_memory.stretch: counts.allocated_peak},
        steady_bytes=loaded,
        load_bytes=loaded,
    )


def _compute_reserved(outcome: RunOutcome, reading: PointReading) -> dict[str, int]:
    if outcome.out_of_memory is not None:
        return {outcome.out_of_memory.stretch: outcome.out_of_memory.counts.reserved_peak}
    return dict(compute_reserved_by_stretch(outcome.closed, reading.live))


def _find_peak(sampler: Sampler, kind: str) -> int | None:
    return max(sampler.series.highest(kind).values(), default=None)


def _iter_samples(sampler: Sampler) -> Iterator[Sample]:
    for kind in (PROCESS_USED, DEVICE_USED):
        windows = [window for window in sampler.series.windows if kind in window.extents]
        per_sample = max(1, -(-len(windows) // MAX_SAMPLES))
        for start in range(0, len(windows), per_sample):
            highest = max(
                windows[start : start + per_sample], key=lambda window: window.extents[kind].high
            )
            yield Sample(t_s=round(highest.end_s, 3), kind=kind, bytes=highest.extents[kind].high)


def _iter_notes(
    setup: ProbeSetup, outcome: RunOutcome, observations: DeviceObservations
) -> Iterator[str]:
    if outcome.out_of_memory is not None:
        yield _format_out_of_memory(outcome.out_of_memory)
    if choice := describe_choice(outcome.chosen, setup.kernel):
        yield choice
    if outcome.workspace_bytes:
        yield (
            f"cuBLAS's workspaces hold {format_bytes(outcome.workspace_bytes)}: not among "
            "allocated bytes, but among reserved"
        )
    if outcome.highest.num_retries:
        times = outcome.highest.num_retries
        yield (
            f"the allocator gave its cache back {times} times to find room: reserved bytes could "
            "be no more"
        )
    expected = setup.workload.allocator is Allocator.EXPANDABLE_SEGMENTS
    if observations.expandable is not None and observations.expandable is not expected:
        yield (
            f"expandable segments were {'asked for' if expected else 'not asked for'}, and the "
            f"allocator says {observations.expandable}"
        )
    if outcome.prefill_seconds:
        yield f"prefill took {median(outcome.prefill_seconds):.4g} s"
    if observations.has_history:
        yield (
            "steps were not timed: the allocator wrote down all that it did; for their time ask "
            "without memory_snapshot"
        )
    yield from _iter_nvml_notes(observations)


def _format_out_of_memory(out_of_memory: OutOfMemory) -> str:
    counts, instant = out_of_memory.counts, get_instant(out_of_memory.stretch)
    allocated, reserved = format_bytes(counts.allocated_peak), format_bytes(counts.reserved_peak)
    free = format_bytes(out_of_memory.free_bytes)
    return (
        f"out of memory in {instant}: {allocated} were allocated, {reserved} reserved, {free} "
        f"free; CUDA: {out_of_memory.message}"
    )


def _iter_nvml_notes(observations: DeviceObservations) -> Iterator[str]:
    sampler = observations.sampler
    if isinstance(observations.baseline, BaselineUnavailable):
        yield (
            f"NVML tells nothing of this GPU: {observations.baseline.reason}; device bytes are "
            "unknown"
        )
    if sampler is None:
        return
    if observations.process_bytes is None and not sampler.neighbours.is_ambiguous:
        yield (
            "NVML does not show this process, as in a container; the GPU's bytes less those before "
            "its start stand in"
        )
    if sampler.failure is not None:
        yield f"NVML's sampler ended early: {sampler.failure}"
    if neighbours := sampler.neighbours.describe():
        yield neighbours
    yield from _iter_sampler_notes(sampler)


def _iter_sampler_notes(sampler: Sampler) -> Iterator[str]:
    series = sampler.series
    rate = (
        f"{series.num_readings} readings in {sampler.wall_s:.1f} s, {sampler.overhead:.2%} of a "
        "core"
    )
    power, utilization = _find_peak(sampler, POWER), _find_peak(sampler, UTILIZATION)
    parts = [] if power is None else [f"power up to {power / _MILLI:.0f} W"]
    parts += [] if utilization is None else [f"utilisation up to {utilization} %"]
    yield "; ".join([f"NVML: {rate}, longest gap {series.longest_gap_s * _MILLI:.0f} ms", *parts])

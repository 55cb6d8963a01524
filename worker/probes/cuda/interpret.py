"""What a run on a GPU means: the session that every device gives, and in words what only this one can tell."""

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
from worker.probes.cuda.baseline import Ground, NoGround
from worker.probes.cuda.run import Exhausted, Outcome
from worker.probes.cuda.watch import reserved_by_stretch, stretches_of
from worker.probes.run import host
from worker.probes.run.backend import Session, Subject
from worker.probes.run.extrapolate import Reading, instant_of
from worker.probes.run.session import reading_of

MAX_SAMPLES = 120
"""Samples of one kind that are told; the highest of what lies between is kept."""
_MILLI = 1000


@dataclass(slots=True, kw_only=True)
class Heard:
    """What was heard of the GPU beside the allocator; ``sampler`` is None where NVML tells nothing."""

    ground: Ground | NoGround
    sampler: Sampler | None
    expandable: bool | None
    is_written_down: bool = False
    """Whether the allocator keeps the history of what it does."""

    def enter(self, instant: str) -> None:
        """Have the readings from here belong to this instant."""
        if self.sampler is not None:
            self.sampler.phase = instant

    @property
    def process_bytes(self) -> int | None:
        """The highest bytes of this process that NVML showed, None where it shows none."""
        return None if self.sampler is None else _most(self.sampler, PROCESS_USED)

    @property
    def used_bytes(self) -> int | None:
        """The highest bytes in use on the GPU, less those that were there before; None where others came or went meanwhile."""
        if self.sampler is None or isinstance(self.ground, NoGround):
            return None
        if self.sampler.neighbours.has_changed or self.sampler.neighbours.is_unsure:
            return None
        most = _most(self.sampler, DEVICE_USED)
        return None if most is None else most - self.ground.baseline_bytes


def session_of(subject: Subject, point: Point, outcome: Outcome, heard: Heard) -> Session:
    """Return what every device tells of a point."""
    exhausted, ground, sampler = outcome.exhausted, heard.ground, heard.sampler
    reading = _reading(point, outcome)
    return Session(
        reading=reading,
        step_seconds=outcome.seconds,
        resident_bytes=host.peak_resident_bytes(),
        reserved=_reserved(outcome, reading),
        device_bytes=heard.process_bytes,
        device_total_used_bytes=heard.used_bytes,
        context_bytes=None if isinstance(ground, NoGround) else ground.context_bytes,
        out_of_memory_at=None if exhausted is None else exhausted.counts.allocated_peak,
        samples=() if sampler is None else tuple(_samples(sampler)),
        notes=tuple(_notes(subject, outcome, heard)),
        transferable=sampler is None or not sampler.neighbours.has_changed,
    )


def _reading(point: Point, outcome: Outcome) -> Reading:
    stretches = stretches_of(outcome.closed, workspace_bytes=outcome.workspace_bytes)
    if outcome.exhausted is None:
        return reading_of(point, stretches)
    counts = outcome.exhausted.counts
    loaded = next((stretch.start for stretch in stretches if stretch.name == "load"), counts.requested)
    return Reading(
        point=point,
        live={outcome.exhausted.where: counts.requested_peak},
        allocator={outcome.exhausted.where: counts.allocated_peak},
        steady_bytes=loaded,
        load_bytes=loaded,
    )


def _reserved(outcome: Outcome, reading: Reading) -> dict[str, int]:
    if outcome.exhausted is not None:
        return {outcome.exhausted.where: outcome.exhausted.counts.reserved_peak}
    return dict(reserved_by_stretch(outcome.closed, reading.live))


def _most(sampler: Sampler, kind: str) -> int | None:
    return max(sampler.series.highest(kind).values(), default=None)


def _samples(sampler: Sampler) -> Iterator[Sample]:
    for kind in (PROCESS_USED, DEVICE_USED):
        windows = [window for window in sampler.series.windows if kind in window.extents]
        per_sample = max(1, -(-len(windows) // MAX_SAMPLES))
        for start in range(0, len(windows), per_sample):
            highest = max(windows[start : start + per_sample], key=lambda window: window.extents[kind].high)
            yield Sample(t_s=round(highest.end_s, 3), kind=kind, bytes=highest.extents[kind].high)


def _notes(subject: Subject, outcome: Outcome, heard: Heard) -> Iterator[str]:
    if outcome.exhausted is not None:
        yield _exhausted_note(outcome.exhausted)
    if choice := describe_choice(outcome.chosen, subject.kernel):
        yield choice
    if outcome.workspace_bytes:
        yield f"cuBLAS's workspaces hold {format_bytes(outcome.workspace_bytes)}: not among allocated bytes, but among reserved"
    if outcome.highest.num_retries:
        times = outcome.highest.num_retries
        yield f"the allocator gave its cache back {times} times to find room: reserved bytes could be no more"
    asked = subject.workload.allocator is Allocator.EXPANDABLE_SEGMENTS
    if heard.expandable is not None and heard.expandable is not asked:
        yield f"expandable segments were {'asked for' if asked else 'not asked for'}, and the allocator says {heard.expandable}"
    if outcome.prefill_seconds:
        yield f"prefill took {median(outcome.prefill_seconds):.4g} s"
    if heard.is_written_down:
        yield "steps were not timed: the allocator wrote down all that it did; for their time ask without memory_snapshot"
    yield from _nvml_notes(heard)


def _exhausted_note(exhausted: Exhausted) -> str:
    counts, where = exhausted.counts, instant_of(exhausted.where)
    allocated, reserved = format_bytes(counts.allocated_peak), format_bytes(counts.reserved_peak)
    free = format_bytes(exhausted.free_bytes)
    return f"out of memory in {where}: {allocated} were allocated, {reserved} reserved, {free} free; CUDA: {exhausted.words}"


def _nvml_notes(heard: Heard) -> Iterator[str]:
    sampler = heard.sampler
    if isinstance(heard.ground, NoGround):
        yield f"NVML tells nothing of this GPU: {heard.ground.reason}; device bytes are unknown"
    if sampler is None:
        return
    if heard.process_bytes is None and not sampler.neighbours.is_unsure:
        yield "NVML does not show this process, as in a container; the GPU's bytes less those before its start stand in"
    if sampler.failure is not None:
        yield f"NVML's sampler ended early: {sampler.failure}"
    if neighbours := sampler.neighbours.describe():
        yield neighbours
    yield from _sampler_note(sampler)


def _sampler_note(sampler: Sampler) -> Iterator[str]:
    series = sampler.series
    rate = f"{series.num_readings} readings in {sampler.wall_s:.1f} s, {sampler.overhead:.2%} of a core"
    power, utilization = _most(sampler, POWER), _most(sampler, UTILIZATION)
    said = [] if power is None else [f"power up to {power / _MILLI:.0f} W"]
    said += [] if utilization is None else [f"utilisation up to {utilization} %"]
    yield "; ".join([f"NVML: {rate}, longest gap {series.longest_gap_s * _MILLI:.0f} ms", *said])

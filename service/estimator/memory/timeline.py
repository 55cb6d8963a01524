"""Timeline of a training step.

It has the bytes at the worst moment of each instant, by component.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from service.estimator.memory.offloading import count_host_activation_bytes
from service.estimator.memory.phase_peaks import (
    Parts,
    PhasePeak,
    PhasePeakBytes,
    correct_phase_peaks,
)
from service.estimator.memory.states import TrainedParameters, TrainStates
from service.estimator.memory.static import StaticMemory, build_static_memory
from service.estimator.memory.training_pass import build_training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.config import PeakCandidates, TrainingPass
from service.estimator.passes.recorder import record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, Section, find_highest_point
from service.estimator.tape.sizes import Size
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import TrainWorkload

Recorder = Callable[[Architecture, TrainingPass], PeakCandidates]

_INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}
_INSTANT_OF = tuple(
    (section, instant) for instant, members in _INSTANTS.items() for section in members
)
_BACKWARD = frozenset({Section.LOSS_BACKWARD, Section.BACKWARD})
_PHASES = {
    "forward_pass": (Section.FORWARD, Section.LOSS_FORWARD),
    "backward_pass": (Section.LOSS_BACKWARD, Section.BACKWARD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All phase peaks of one step on one rank.

    ``phases`` count the loss in both passes, as a profiler does.
    """

    peaks: tuple[PhasePeak, ...]
    phases: tuple[tuple[str, int], ...]
    static_memory: StaticMemory
    host_bytes: int = 0
    """Bytes of the rank in the host's memory."""

    @property
    def steady_bytes(self) -> int:
        """Bytes between steps."""
        return self.static_memory.steady_bytes

    @property
    def states(self) -> TrainStates:
        """Weights, gradients and optimizer states of the rank."""
        return self.static_memory.states

    @property
    def trained(self) -> TrainedParameters:
        """Parameters that are trained."""
        return self.static_memory.trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """Highest phase peak of a timeline.

    It has the bytes that stay between steps and in the host's memory.
    """

    name: str
    allocated_bytes: int
    steady_bytes: int
    host_bytes: int


def build_train_timeline(
    model: Architecture, workload: TrainWorkload, layout: Layout, record: Recorder = record_training
) -> Timeline:
    """Return the timeline of one rank in the steady state."""
    candidates = record(model, build_training_pass(model, workload, layout))
    return build_timeline(build_static_memory(model, workload, layout), workload, candidates)


def build_timeline(
    static_memory: StaticMemory, workload: TrainWorkload, candidates: PeakCandidates
) -> Timeline:
    """Return the timeline of a batch and a sequence."""
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    sections = {
        section: _find_highest_point(static_memory, section, points, values)
        for section, points in candidates.items()
    }
    peaks = [
        PhasePeak(
            name="load",
            allocated_bytes=static_memory.loaded_bytes,
            parts={"weights": static_memory.loaded_bytes},
        ),
    ]
    for name, members in _INSTANTS.items():
        section = max(members, key=lambda member: sections[member][0])
        bytes_, point = sections[section]
        peaks.append(
            PhasePeak(
                name=name,
                allocated_bytes=bytes_,
                parts=_sum_parts(static_memory, section, point, values),
            ),
        )
    peaks.append(
        PhasePeak(
            name="optimizer_step",
            allocated_bytes=static_memory.step_bytes,
            parts=static_memory.step,
        ),
    )
    phases = [
        (name, max([sections[member][0] for member in members]))
        for name, members in _PHASES.items()
    ]
    return Timeline(
        peaks=tuple(peaks),
        phases=(*phases, ("optimizer_step", static_memory.step_bytes)),
        static_memory=static_memory,
        host_bytes=static_memory.host_bytes
        + count_host_activation_bytes(static_memory.model, workload),
    )


def find_peak(
    static_memory: StaticMemory,
    workload: TrainWorkload,
    candidates: PeakCandidates,
    corrections: Corrections | None = None,
) -> Peak:
    """Return the peak of the timeline alone, for a search.

    It is the first one of equals.
    """
    if corrections is not None:
        tokens = workload.micro_batch_size * workload.sequence_length
        return select_peak(
            static_memory,
            workload,
            correct_phase_peaks(
                list_phase_peaks(static_memory, workload, candidates), corrections, tokens
            ),
        )
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    name, highest = "load", static_memory.loaded_bytes
    for section, instant in _INSTANT_OF:
        bytes_, _ = _find_highest_point(static_memory, section, candidates[section], values)
        if bytes_ > highest:
            name, highest = instant, bytes_
    if static_memory.step_bytes > highest:
        name, highest = "optimizer_step", static_memory.step_bytes
    return _build_peak(static_memory, workload, name, highest)


def select_peak(
    static_memory: StaticMemory, workload: TrainWorkload, peaks: Sequence[PhasePeakBytes]
) -> Peak:
    """Return the highest of some phase peaks, the first one of equals."""
    highest = max(peaks, key=attrgetter("allocated_bytes"))
    return _build_peak(static_memory, workload, highest.name, highest.allocated_bytes)


def _build_peak(
    static_memory: StaticMemory, workload: TrainWorkload, name: str, highest: int
) -> Peak:
    host_bytes = static_memory.host_bytes + count_host_activation_bytes(
        static_memory.model, workload
    )
    return Peak(
        name=name,
        allocated_bytes=highest,
        steady_bytes=static_memory.steady_bytes,
        host_bytes=host_bytes,
    )


def list_phase_peaks(
    static_memory: StaticMemory, workload: TrainWorkload, candidates: PeakCandidates
) -> tuple[PhasePeakBytes, ...]:
    """Return the phase peaks of the timeline without their parts."""
    values = sizes.evaluate_monomials(workload.micro_batch_size, workload.sequence_length)
    resident_gradients = static_memory.resident["gradients"]
    peaks = [PhasePeakBytes("load", static_memory.loaded_bytes, 0, 0)]
    for name, members in _INSTANTS.items():
        section_peaks = [
            _find_highest_point(static_memory, section, candidates[section], values)
            for section in members
        ]
        bytes_, point = max(section_peaks, key=itemgetter(0))
        point_gradients, activations = (
            (0, 0)
            if point is None
            else (
                _count_gradient_bytes(static_memory, point),
                point.evaluate_part("activations", values),
            )
        )
        peaks.append(
            PhasePeakBytes(name, bytes_, resident_gradients + point_gradients, activations)
        )
    return (
        *peaks,
        PhasePeakBytes(
            "optimizer_step", static_memory.step_bytes, static_memory.step["gradients"], 0
        ),
    )


def _find_highest_point(
    static_memory: StaticMemory, section: Section, points: tuple[Point, ...], values: Size
) -> tuple[int, Point | None]:
    """Return the bytes of a section's highest point, and the point.

    A section without one holds the resident bytes.
    """
    resident_bytes = static_memory.resident_bytes + (
        static_memory.buckets.backward if section in _BACKWARD else 0
    )
    if not points:
        return resident_bytes, None
    highest = find_highest_point(
        points,
        values,
        gradient_bytes=static_memory.grad_bytes,
        shards=static_memory.shards.gradients,
    )
    return resident_bytes + sizes.evaluate(highest.bytes, values) + _count_gradient_bytes(
        static_memory, highest
    ), highest


def _sum_parts(
    static_memory: StaticMemory, section: Section, point: Point | None, values: Size
) -> Parts:
    """Return the live bytes at a point of a section, by part."""
    parts = dict(static_memory.resident)
    if section in _BACKWARD:
        parts["communication_buffers"] += static_memory.buckets.backward
    if point is not None:
        for name, bytes_ in point.evaluate_parts(values).items():
            parts[name] = parts.get(name, 0) + bytes_
        parts["gradients"] += _count_gradient_bytes(static_memory, point)
    return parts


def _count_gradient_bytes(static_memory: StaticMemory, point: Point) -> int:
    return ceil_div(point.gradients * static_memory.grad_bytes, static_memory.shards.gradients)

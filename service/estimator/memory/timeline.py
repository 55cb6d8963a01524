"""Walks the training step: what is allocated at the worst moment of each instant, by component."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter, itemgetter

from service.estimator.memory.offloading import activations_on_host
from service.estimator.memory.phase_peaks import Height, Moment, Parts, all_corrected
from service.estimator.memory.states import TrainedParameters, TrainStates
from service.estimator.memory.static import Footing, footing_of
from service.estimator.memory.training_pass import training_pass
from service.estimator.model.architecture import Architecture
from service.estimator.passes.recorder import Highs, TrainingPass, record_training
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Point, Section, highest_of
from service.estimator.tape.sizes import Size
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import TrainWorkload

Recorder = Callable[[Architecture, TrainingPass], Highs]

_INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}
_INSTANT_OF = tuple((section, instant) for instant, members in _INSTANTS.items() for section in members)
_BACKWARD = frozenset({Section.LOSS_BACKWARD, Section.BACKWARD})
_PHASES = {
    "forward_pass": (Section.FORWARD, Section.LOSS_FORWARD),
    "backward_pass": (Section.LOSS_BACKWARD, Section.BACKWARD),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """All moments of one step on one rank; ``phases`` count the loss in both passes, as a profiler does."""

    moments: tuple[Moment, ...]
    phases: tuple[tuple[str, int], ...]
    footing: Footing
    host_bytes: int = 0
    """Bytes of the rank in the host's memory."""

    @property
    def steady_bytes(self) -> int:
        """Bytes between steps."""
        return self.footing.steady_bytes

    @property
    def states(self) -> TrainStates:
        """Weights, gradients and optimizer states of the rank."""
        return self.footing.states

    @property
    def trained(self) -> TrainedParameters:
        """What is trained."""
        return self.footing.trained


@dataclass(frozen=True, slots=True, kw_only=True)
class Peak:
    """The highest moment of a timeline, by name and bytes, with what stays between steps and in the host's memory."""

    name: str
    allocated_bytes: int
    steady_bytes: int
    host_bytes: int


def train_timeline(
    model: Architecture, workload: TrainWorkload, layout: Layout, record: Recorder = record_training
) -> Timeline:
    """Return the timeline of one rank in the steady state."""
    highs = record(model, training_pass(model, workload, layout))
    return timeline_on(footing_of(model, workload, layout), workload, highs)


def timeline_on(footing: Footing, workload: TrainWorkload, highs: Highs) -> Timeline:
    """Return the timeline of a batch and a sequence on a footing."""
    values = sizes.monomials(workload.micro_batch_size, workload.sequence_length)
    sections = {section: _highest(footing, section, points, values) for section, points in highs.items()}
    moments = [Moment(name="load", allocated_bytes=footing.loaded_bytes, parts={"weights": footing.loaded_bytes})]
    for name, members in _INSTANTS.items():
        section = max(members, key=lambda member: sections[member][0])
        bytes_, point = sections[section]
        moments.append(Moment(name=name, allocated_bytes=bytes_, parts=_parts(footing, section, point, values)))
    moments.append(Moment(name="optimizer_step", allocated_bytes=footing.step_bytes, parts=footing.step))
    phases = [(name, max([sections[member][0] for member in members])) for name, members in _PHASES.items()]
    return Timeline(
        moments=tuple(moments),
        phases=(*phases, ("optimizer_step", footing.step_bytes)),
        footing=footing,
        host_bytes=footing.host_bytes + activations_on_host(footing.model, workload),
    )


def peak_on(footing: Footing, workload: TrainWorkload, highs: Highs, corrections: Corrections | None = None) -> Peak:
    """Return the peak of the timeline alone, the first one of equals, for a search that asks for nothing else."""
    if corrections is not None:
        tokens = workload.micro_batch_size * workload.sequence_length
        return peak_of(footing, workload, all_corrected(heights_on(footing, workload, highs), corrections, tokens))
    values = sizes.monomials(workload.micro_batch_size, workload.sequence_length)
    name, highest = "load", footing.loaded_bytes
    for section, instant in _INSTANT_OF:
        bytes_, _ = _highest(footing, section, highs[section], values)
        if bytes_ > highest:
            name, highest = instant, bytes_
    if footing.step_bytes > highest:
        name, highest = "optimizer_step", footing.step_bytes
    return _peak(footing, workload, name, highest)


def peak_of(footing: Footing, workload: TrainWorkload, heights: Sequence[Height]) -> Peak:
    """Return the highest of some heights, the first one of equals."""
    highest = max(heights, key=attrgetter("allocated_bytes"))
    return _peak(footing, workload, highest.name, highest.allocated_bytes)


def _peak(footing: Footing, workload: TrainWorkload, name: str, highest: int) -> Peak:
    host_bytes = footing.host_bytes + activations_on_host(footing.model, workload)
    return Peak(name=name, allocated_bytes=highest, steady_bytes=footing.steady_bytes, host_bytes=host_bytes)


def heights_on(footing: Footing, workload: TrainWorkload, highs: Highs) -> tuple[Height, ...]:
    """Return the moments of the timeline without what they are made of."""
    values = sizes.monomials(workload.micro_batch_size, workload.sequence_length)
    standing = footing.resident["gradients"]
    heights = [Height("load", footing.loaded_bytes, 0, 0)]
    for name, members in _INSTANTS.items():
        found = [_highest(footing, section, highs[section], values) for section in members]
        bytes_, point = max(found, key=itemgetter(0))
        made, kept = (0, 0) if point is None else (_gradients(footing, point), point.part_at("activations", values))
        heights.append(Height(name, bytes_, standing + made, kept))
    return (*heights, Height("optimizer_step", footing.step_bytes, footing.step["gradients"], 0))


def _highest(footing: Footing, section: Section, points: tuple[Point, ...], values: Size) -> tuple[int, Point | None]:
    """Return the bytes of a section's highest point, and the point; a section without one holds what is resident."""
    held = footing.resident_bytes + (footing.buckets.backward if section in _BACKWARD else 0)
    if not points:
        return held, None
    best = highest_of(points, values, gradient_bytes=footing.grad_bytes, shards=footing.shards.gradients)
    return held + sizes.evaluate(best.bytes, values) + _gradients(footing, best), best


def _parts(footing: Footing, section: Section, point: Point | None, values: Size) -> Parts:
    """Return what is alive at a point of a section, by part."""
    parts = dict(footing.resident)
    if section in _BACKWARD:
        parts["communication_buffers"] += footing.buckets.backward
    if point is not None:
        for name, bytes_ in point.parts_at(values).items():
            parts[name] = parts.get(name, 0) + bytes_
        parts["gradients"] += _gradients(footing, point)
    return parts


def _gradients(footing: Footing, point: Point) -> int:
    return ceil_div(point.gradients * footing.grad_bytes, footing.shards.gradients)

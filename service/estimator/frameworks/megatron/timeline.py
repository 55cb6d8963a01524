"""The moments of one step on each pipeline stage: states, other micro-batches' tensors, and the one that runs."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.frameworks.megatron.chunks import ChunkRecord
from service.estimator.frameworks.megatron.parameters import StageParameters, stage_parameters
from service.estimator.frameworks.megatron.shape import Shape, Switches, shape_of, switches_of
from service.estimator.frameworks.megatron.stages import StageLayers, chunks_of, in_flight, joined
from service.estimator.frameworks.megatron.states import StageStates, stage_states
from service.estimator.frameworks.megatron.workspaces import is_hopper, workspace_bytes
from service.estimator.layout import Layout
from service.estimator.moments import Moment, Parts
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Point, Section
from service.estimator.tape.sizes import Size
from service.estimator.workload import Attention, TrainWorkload

Record = Callable[[Shape, Switches, StageLayers], ChunkRecord]

_INSTANTS = {
    "forward": (Section.FORWARD,),
    "loss": (Section.LOSS_FORWARD, Section.LOSS_BACKWARD),
    "backward": (Section.BACKWARD,),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimeline:
    """One stage's moments, its bytes between steps, and what it holds; ``flying`` are micro-batches by chunk."""

    stage: int
    moments: tuple[Moment, ...]
    steady_bytes: int
    states: StageStates
    held: StageParameters
    flying: tuple[int, ...]

    @property
    def peak(self) -> Moment:
        """The highest moment."""
        return max(self.moments, key=lambda moment: moment.allocated_bytes)


def stage_timelines(
    model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, record: Record
) -> tuple[StageTimeline, ...]:
    """Return the timeline of each stage that can differ from its neighbours: all of them."""
    shape, how = shape_of(model, layout), switches_of(workload, hopper=is_hopper(device))
    length = workload.sequence_length // layout.context_parallel
    values = sizes.monomials(workload.micro_batch_size, length)
    walks = (_Walk(model, workload, layout, stage, values) for stage in range(layout.pipeline_parallel))
    return tuple(walk.timeline(shape, how, record, hopper=is_hopper(device)) for walk in walks)


class _Walk:
    """One stage's step."""

    def __init__(self, model: Architecture, workload: TrainWorkload, layout: Layout, stage: int, values: Size) -> None:
        self.workload, self.layout, self.stage, self.values = workload, layout, stage, values
        self.chunks = chunks_of(model, layout, stage)
        self.flying = in_flight(layout, stage, workload.gradient_accumulation_steps)

    def timeline(self, shape: Shape, how: Switches, record: Record, *, hopper: bool) -> StageTimeline:
        """Return the stage's moments."""
        layers = joined(self.chunks)
        held = stage_parameters(shape, layers)
        states = stage_states(held, self.workload.precision, self.layout, self.workload.optimizer)
        unfused = self.workload.attention in {Attention.EAGER, Attention.MATH}
        standing = {
            "weights": states.weights,
            "master_weights": states.master_weights,
            "gradients": states.gradients,
            "optimizer_states": states.optimizer_states,
            "temporaries": workspace_bytes(layers, hopper=hopper, unfused=unfused),
            "communication_buffers": self._gather_buffer(shape, layers),
        }
        records = [record(shape, how, chunk) for chunk in self.chunks]
        moments = [_moment("load", {"weights": states.weights})]
        moments += [self._highest(name, members, standing, records) for name, members in _INSTANTS.items()]
        moments.append(_moment("optimizer_step", _plus(standing, {"gradients": states.step_gradients})))
        return StageTimeline(
            stage=self.stage,
            moments=tuple(moments),
            steady_bytes=sum(standing.values()),
            states=states,
            held=held,
            flying=self.flying,
        )

    def _gather_buffer(self, shape: Shape, layers: StageLayers) -> int:
        """Return the global buffer in which the head gathers its input under sequence parallelism (core/utils.py)."""
        if shape.spread == 1 or not layers.last:
            return 0
        return sizes.evaluate(sizes.per_token(2 * shape.hidden), self.values)

    def _highest(self, name: str, sections: tuple[Section, ...], standing: Parts, records: list[ChunkRecord]) -> Moment:
        """Return the stage's highest moment in some sections, whichever of its chunks runs."""
        kept = [sizes.evaluate(record.kept, self.values) * count for record, count in zip(records, self.flying, strict=True)]
        best = _moment(name, standing)
        for record, count in zip(records, self.flying, strict=True):
            if not count:
                continue
            others = sum(kept) - sizes.evaluate(record.kept, self.values)
            for section in sections:
                for point in record.highs.get(section, ()):
                    moment = _moment(name, _plus(standing, self._parts(point, others)))
                    best = max(best, moment, key=lambda found: found.allocated_bytes)
        return best

    def _parts(self, point: Point, others: int) -> Parts:
        parts: Parts = {"activations": others}
        for category, size in point.live:
            if category is not Category.GRADIENTS:
                parts[category.value] = parts.get(category.value, 0) + sizes.evaluate(size, self.values)
        return parts


def _plus(standing: Parts, more: Parts) -> Parts:
    return {name: standing.get(name, 0) + more.get(name, 0) for name in (*standing, *more)}


def _moment(name: str, parts: Parts) -> Moment:
    return Moment(name=name, allocated_bytes=sum(parts.values()), parts=parts)

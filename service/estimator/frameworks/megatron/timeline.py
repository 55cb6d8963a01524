"""The moments of one step on each pipeline stage: states, other micro-batches' tensors, and the one that runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.architecture import Architecture
from service.estimator.corrections import Corrections
from service.estimator.device import Device
from service.estimator.frameworks.megatron.chunks import ChunkRecord
from service.estimator.frameworks.megatron.parameters import StageParameters, stage_parameters
from service.estimator.frameworks.megatron.placeholders import placeholder_bytes
from service.estimator.frameworks.megatron.shape import Shape, Switches, shape_of, switches_of
from service.estimator.frameworks.megatron.stages import StageLayers, chunks_by_stage, first_of_alike, in_flight, joined
from service.estimator.frameworks.megatron.states import StageStates, stage_states
from service.estimator.frameworks.megatron.workspaces import Generation, generation_of, workspace_bytes
from service.estimator.layout import Layout
from service.estimator.moments import Moment, Parts, corrected
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.sizes import Size
from service.estimator.workload import Attention, TrainWorkload

MAX_PRICED = 4096
Record = Callable[[StageLayers], ChunkRecord]


@dataclass(frozen=True, slots=True)
class Recorded:
    """What is recorded of a shape, and what its chunks hold at batches and sequences that were asked about."""

    record: Record
    priced: "dict[tuple[StageLayers, Size], _Chunk]"


Recorder = Callable[[Shape, Switches], Recorded]

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

    def with_corrections(self, corrections: Corrections, num_tokens: int) -> "StageTimeline":
        """Return the stage with what was measured added to its moments."""
        return replace(self, moments=tuple(corrected(moment, corrections, num_tokens) for moment in self.moments))


def stage_timelines(
    model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, recorder: Recorder, *, every: bool = True
) -> tuple[StageTimeline, ...]:
    """Return the timeline of each stage; unless ``every`` is asked, only of those that none before them exceeds.

    Of stages with the same layers the first keeps the most micro-batches.
    """
    generation = generation_of(device)
    latest = Generation.HOPPER if workload.deterministic else Generation.BLACKWELL
    fused = Generation.HOPPER <= generation <= latest
    shape, how = shape_of(model, layout), switches_of(workload, fused_attention=fused)
    walk = _Walk(workload, layout, shape, recorder(shape, how), generation)
    stages = chunks_by_stage(model, layout) if every else first_of_alike(model, layout)
    return tuple([walk.stage(stage, chunks) for stage, chunks in stages])


class _Walk:
    """The step on each stage."""

    def __init__(
        self, workload: TrainWorkload, layout: Layout, shape: Shape, recorded: Recorded, generation: Generation
    ) -> None:
        self.workload, self.layout, self.shape, self.recorded, self.generation = workload, layout, shape, recorded, generation
        self.values = sizes.monomials(workload.micro_batch_size, workload.sequence_length // layout.context_parallel)
        self.held: dict[StageLayers, tuple[StageParameters, StageStates, Parts]] = {}

    def stage(self, stage: int, chunks: tuple[StageLayers, ...]) -> StageTimeline:
        """Return a stage's moments."""
        layers = joined(chunks)
        if layers not in self.held:
            self.held[layers] = self._standing(layers)
        held, states, standing = self.held[layers]
        flying = in_flight(self.layout, stage, self.workload.gradient_accumulation_steps)
        running = [(self._chunk(chunk), count) for chunk, count in zip(chunks, flying, strict=True)]
        moments = [_moment("load", {"weights": states.weights})]
        moments += [_highest(name, standing, running) for name in _INSTANTS]
        moments.append(_moment("optimizer_step", _plus(standing, {"gradients": states.step_gradients})))
        steady = states.resident + standing["temporaries"] + standing["communication_buffers"]
        return StageTimeline(stage=stage, moments=tuple(moments), steady_bytes=steady, states=states, held=held, flying=flying)

    def _standing(self, layers: StageLayers) -> tuple[StageParameters, StageStates, Parts]:
        """Return what stages of these layers hold between steps."""
        held = stage_parameters(self.shape, layers)
        states = stage_states(held, self.workload.precision, self.layout, self.workload.optimizer)
        unfused, deterministic = self.workload.attention in {Attention.EAGER, Attention.MATH}, self.workload.deterministic
        standing = {
            "weights": states.weights,
            "master_weights": states.master_weights,
            "gradients": states.gradients,
            "optimizer_states": states.optimizer_states,
            "temporaries": workspace_bytes(layers, self.generation, unfused=unfused, deterministic=deterministic)
            # Reproducible runs add gradients up outside of the products (--no-gradient-accumulation-fusion).
            + (0 if deterministic else placeholder_bytes(self.shape, layers)),
            "communication_buffers": self._gather_buffer(layers) + self._received(layers),
        }
        return held, states, standing

    def _gather_buffer(self, layers: StageLayers) -> int:
        """Return the global buffer in which the head gathers its input under sequence parallelism (core/utils.py)."""
        if self.shape.spread == 1 or not layers.last:
            return 0
        return sizes.evaluate(sizes.per_token(2 * self.shape.hidden), self.values)

    def _received(self, layers: StageLayers) -> int:
        """Return what chunks were sent last: ``set_input_tensor`` holds it, and ``retain_grad`` its gradient (schedules.py)."""
        chunks = self.layout.virtual_pipeline_stages - layers.first
        return sizes.evaluate(sizes.per_token(2 * chunks * 2 * self.shape.hidden // self.shape.spread), self.values)

    def _chunk(self, layers: StageLayers) -> "_Chunk":
        priced, key = self.recorded.priced, (layers, self.values)
        found = priced.get(key)
        if found is None:
            if len(priced) >= MAX_PRICED:
                priced.clear()
            record = self.recorded.record(layers)
            tops = {name: self._top(record, members) for name, members in _INSTANTS.items()}
            found = priced[key] = _Chunk(kept=sizes.evaluate(record.kept, self.values), tops=tops)
        return found

    def _top(self, record: ChunkRecord, sections: tuple[Section, ...]) -> tuple[int, Parts] | None:
        points = [point for section in sections for point in record.highs.get(section, ())]
        if not points:
            return None
        top = max(points, key=lambda point: sizes.evaluate(point.bytes, self.values))
        parts: Parts = {}
        for category, size in top.live:
            if category is not Category.GRADIENTS:
                parts[category.value] = parts.get(category.value, 0) + sizes.evaluate(size, self.values)
        return sizes.evaluate(top.bytes, self.values), parts


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """What a micro-batch keeps of a chunk, and the chunk's highest point of each instant while it runs."""

    kept: int
    tops: dict[str, tuple[int, Parts] | None]


def _highest(name: str, standing: Parts, running: list[tuple[_Chunk, int]]) -> Moment:
    """Return the stage's highest moment of an instant, whichever of its chunks runs while the others are kept."""
    total = sum(chunk.kept * count for chunk, count in running)
    best: tuple[int, int, Parts] | None = None
    for chunk, count in running:
        top = chunk.tops[name] if count else None
        if top is not None and (best is None or total - chunk.kept + top[0] > best[0]):
            best = total - chunk.kept + top[0], total - chunk.kept, top[1]
    if best is None:
        return _moment(name, standing)
    _, others, parts = best
    return _moment(name, _plus(standing, parts | {"activations": parts.get("activations", 0) + others}))


def _plus(standing: Parts, more: Parts) -> Parts:
    both = dict(standing)
    for name, bytes_ in more.items():
        both[name] = both.get(name, 0) + bytes_
    return both


def _moment(name: str, parts: Parts) -> Moment:
    return Moment(name=name, allocated_bytes=sum(parts.values()), parts=parts)

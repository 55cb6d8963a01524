"""The moments of one step on each pipeline stage: states, other micro-batches' tensors, and the one that runs."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import NamedTuple

from service.estimator.backends.megatron.chunks import ChunkRecord
from service.estimator.backends.megatron.parameters import StageParameters, stage_parameters
from service.estimator.backends.megatron.placeholders import placeholder_bytes
from service.estimator.backends.megatron.shape import Shape, Switches, shape_of, switches_of
from service.estimator.backends.megatron.stages import StageLayers, chunks_by_stage, first_of_alike, in_flight, joined
from service.estimator.backends.megatron.states import StageStates, stage_states
from service.estimator.backends.megatron.workspaces import Generation, generation_of, workspace_bytes
from service.estimator.memory.phase_peaks import Height, Moment, Parts, corrected
from service.estimator.model.architecture import Architecture
from service.estimator.tape import sizes
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.sizes import Size
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, TrainWorkload

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


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePeak:
    """One stage's highest moment and its bytes between steps, for a search that asks for nothing else."""

    stage: int
    peak: Height
    steady_bytes: int


def stage_timelines(
    model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, recorder: Recorder
) -> tuple[StageTimeline, ...]:
    """Return the timeline of each stage."""
    walk = _walk(model, workload, layout, device, recorder)
    return tuple([walk.stage(stage, chunks) for stage, chunks in chunks_by_stage(model, layout)])


def stage_peaks(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    device: Device,
    recorder: Recorder,
    corrections: Corrections | None,
) -> tuple[StagePeak, ...]:
    """Return the peak of each stage that none before it exceeds: of those with the same layers the first keeps the most."""
    walk = _walk(model, workload, layout, device, recorder)
    return tuple([walk.peak(stage, chunks, corrections) for stage, chunks in first_of_alike(model, layout)])


def _walk(model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, recorder: Recorder) -> "_Walk":
    generation = generation_of(device)
    latest = Generation.HOPPER if workload.deterministic else Generation.BLACKWELL
    fused = Generation.HOPPER <= generation <= latest
    shape, how = shape_of(model, layout), switches_of(workload, fused_attention=fused)
    return _Walk(workload, layout, shape, recorder(shape, how), generation)


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
        held, states, standing = self._held_by(chunks)
        flying, running = self._running(stage, chunks)
        moments = [_moment("load", {"weights": states.weights})]
        moments += [_highest(name, standing, running) for name in _INSTANTS]
        moments.append(_moment("optimizer_step", _plus(standing, {"gradients": states.step_gradients})))
        return StageTimeline(
            stage=stage,
            moments=tuple(moments),
            steady_bytes=_between_steps(states, standing),
            states=states,
            held=held,
            flying=flying,
        )

    def peak(self, stage: int, chunks: tuple[StageLayers, ...], corrections: Corrections | None) -> StagePeak:
        """Return the highest of a stage's moments, the first one of equals."""
        _, states, standing = self._held_by(chunks)
        _, running = self._running(stage, chunks)
        total, gradients = sum(standing.values()), standing["gradients"]
        heights = [Height("load", states.weights, 0, 0)]
        for name in _INSTANTS:
            top, others = _highest_of(name, running)
            if top is None:
                heights.append(Height(name, total, gradients, 0))
            else:
                heights.append(Height(name, total + top.part_bytes + others, gradients, top.activations + others))
        heights.append(Height("optimizer_step", total + states.step_gradients, gradients + states.step_gradients, 0))
        tokens = self.workload.micro_batch_size * self.workload.sequence_length
        highest = max((corrected(height, corrections, tokens) for height in heights), key=attrgetter("allocated_bytes"))
        return StagePeak(stage=stage, peak=highest, steady_bytes=_between_steps(states, standing))

    def _held_by(self, chunks: tuple[StageLayers, ...]) -> tuple[StageParameters, StageStates, Parts]:
        """Return what a stage of these chunks holds between steps."""
        layers = chunks[0] if len(chunks) == 1 else joined(chunks)
        found = self.held.get(layers)
        if found is None:
            found = self.held[layers] = self._standing(layers)
        return found

    def _running(self, stage: int, chunks: tuple[StageLayers, ...]) -> "tuple[tuple[int, ...], _Running]":
        """Return how many micro-batches of each chunk a stage keeps, and beside each what it keeps of them."""
        flying = in_flight(self.layout, stage, self.workload.gradient_accumulation_steps)
        return flying, [(self._chunk(chunk), count) for chunk, count in zip(chunks, flying, strict=True)]

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

    def _top(self, record: ChunkRecord, sections: tuple[Section, ...]) -> "_Top | None":
        points = [point for section in sections for point in record.highs.get(section, ())]
        if not points:
            return None
        top = max(points, key=lambda point: sizes.evaluate(point.bytes, self.values))
        parts: Parts = {}
        for category, size in top.live:
            if category is not Category.GRADIENTS:
                parts[category.value] = parts.get(category.value, 0) + sizes.evaluate(size, self.values)
        return _Top(sizes.evaluate(top.bytes, self.values), parts, sum(parts.values()), parts.get("activations", 0))


class _Top(NamedTuple):
    """The highest point of an instant while a chunk runs: its bytes, and its parts with their sum."""

    bytes: int
    parts: Parts
    part_bytes: int
    activations: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Chunk:
    """What a micro-batch keeps of a chunk, and the chunk's highest point of each instant while it runs."""

    kept: int
    tops: dict[str, _Top | None]


_Running = list[tuple[_Chunk, int]]
"""The chunks of a stage, each with how many micro-batches of it are kept."""


def _highest_of(name: str, running: _Running) -> tuple[_Top | None, int]:
    """Return the highest point of an instant, whichever of a stage's chunks runs, and what is kept of the others."""
    total = sum([chunk.kept * count for chunk, count in running])
    best: tuple[_Top | None, int] = None, 0
    highest = -1
    for chunk, count in running:
        top = chunk.tops[name] if count else None
        if top is not None and total - chunk.kept + top.bytes > highest:
            best, highest = (top, total - chunk.kept), total - chunk.kept + top.bytes
    return best


def _highest(name: str, standing: Parts, running: _Running) -> Moment:
    """Return the stage's highest moment of an instant."""
    top, others = _highest_of(name, running)
    if top is None:
        return _moment(name, standing)
    return _moment(name, _plus(standing, top.parts | {"activations": top.activations + others}))


def _between_steps(states: StageStates, standing: Parts) -> int:
    return states.resident + standing["temporaries"] + standing["communication_buffers"]


def _plus(standing: Parts, more: Parts) -> Parts:
    both = dict(standing)
    for name, bytes_ in more.items():
        both[name] = both.get(name, 0) + bytes_
    return both


def _moment(name: str, parts: Parts) -> Moment:
    return Moment(name=name, allocated_bytes=sum(parts.values()), parts=parts)

"""Phase peaks of one step on each pipeline stage.

They are states, other micro-batches' tensors, and the micro-batch that runs.
"""

from dataclasses import dataclass, replace
from operator import attrgetter

from service.estimator.backends.megatron.buffers import (
    count_waiting,
    deferred_bytes,
    gather_buffer_bytes,
    received_bytes,
)
from service.estimator.backends.megatron.chunk_bytes import (
    HighestPoint,
    Recorder,
    RunningChunks,
    ShapeRecording,
    evaluate_chunk,
    find_highest_point,
)
from service.estimator.backends.megatron.parameters import StageParameters, count_stage_parameters
from service.estimator.backends.megatron.placeholders import placeholder_bytes
from service.estimator.backends.megatron.shape import (
    RankShape,
    Switches,
    build_rank_shape,
    resolve_switches,
)
from service.estimator.backends.megatron.stages import (
    StageLayers,
    list_distinct_stages,
    list_stage_chunks,
    merge_chunks,
)
from service.estimator.backends.megatron.states import StageStates, compute_stage_states
from service.estimator.backends.megatron.workspaces import (
    Generation,
    get_generation,
    workspace_bytes,
)
from service.estimator.memory.phase_peaks import (
    Parts,
    PhasePeak,
    PhasePeakBytes,
    correct_phase_peak,
)
from service.estimator.memory.step_prices import INSTANTS
from service.estimator.model.architecture import Architecture
from service.estimator.model.pipelines.in_flight import list_moments
from service.estimator.tape import sizes
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTimeline:
    """Phase peaks, steady bytes and parameters of one stage.

    ``in_flight`` are the micro-batches in flight by chunk at the highest point of both passes.
    """

    stage: int
    peaks: tuple[PhasePeak, ...]
    steady_bytes: int
    states: StageStates
    parameters: StageParameters
    in_flight: tuple[int, ...]
    layers: tuple[int, ...]
    """Decoder layers of each chunk."""

    @property
    def peak(self) -> PhasePeak:
        """Highest phase peak."""
        return max(self.peaks, key=lambda moment: moment.allocated_bytes)

    def with_corrections(self, corrections: Corrections, num_tokens: int) -> "StageTimeline":
        """Return the stage with measured corrections added to its peaks."""
        return replace(
            self,
            peaks=tuple(
                correct_phase_peak(moment, corrections, num_tokens) for moment in self.peaks
            ),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePeak:
    """Highest phase peak and steady bytes of one stage.

    For a search that asks for nothing else.
    """

    stage: int
    peak: PhasePeakBytes
    steady_bytes: int


def build_stage_timelines(
    model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, recorder: Recorder
) -> tuple[StageTimeline, ...]:
    """Return the timeline of each stage."""
    walk = _build_walk(model, workload, layout, device, recorder)
    return tuple(
        [
            walk.build_timeline(stage, chunks)
            for stage, chunks in list_stage_chunks(model, layout, workload.megatron)
        ]
    )


def compute_stage_peaks(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    device: Device,
    recorder: Recorder,
    corrections: Corrections | None,
) -> tuple[StagePeak, ...]:
    """Return the peak of each stage that no earlier one exceeds.

    Of the stages with the same layers, the first keeps the most.
    """
    walk = _build_walk(model, workload, layout, device, recorder)
    return tuple(
        [
            walk.find_peak(stage, chunks, corrections)
            for stage, chunks in list_distinct_stages(model, layout, workload.megatron)
        ],
    )


def _build_walk(
    model: Architecture, workload: TrainWorkload, layout: Layout, device: Device, recorder: Recorder
) -> "_StageWalk":
    generation = get_generation(device)
    latest = Generation.HOPPER if workload.deterministic else Generation.BLACKWELL
    fused = Generation.HOPPER <= generation <= latest
    shape = build_rank_shape(model, layout)
    switches = resolve_switches(workload, heads=shape.heads, fused_attention=fused)
    return _StageWalk(workload, layout, shape, recorder(shape, switches), generation, switches)


class _StageWalk:
    """Walk over the step on each stage."""

    def __init__(
        self,
        workload: TrainWorkload,
        layout: Layout,
        shape: RankShape,
        recording: ShapeRecording,
        generation: Generation,
        switches: Switches,
    ) -> None:
        self.workload, self.layout, self.shape = workload, layout, shape
        self.recording, self.generation, self.switches = recording, generation, switches
        self.values = sizes.evaluate_monomials(
            workload.micro_batch_size, workload.sequence_length // layout.context_parallel
        )
        self.resident_cache: dict[StageLayers, tuple[StageParameters, StageStates, Parts]] = {}

    def build_timeline(self, stage: int, chunks: tuple[StageLayers, ...]) -> StageTimeline:
        """Return the phase peaks of a stage."""
        parameters, states, resident = self._get_resident(chunks)
        running = self._list_running(stage, chunks)
        peaks = [_make_phase_peak("load", {"weights": states.weights})]
        points = {name: find_highest_point(name, running) for name in INSTANTS}
        peaks += [
            _build_phase_peak(name, _add_parts(resident, self._get_deferred(name, chunks)), point)
            for name, point in points.items()
        ]
        busiest = max(peaks[1:], key=lambda moment: moment.allocated_bytes).name
        step_parts = _add_parts(resident, {"gradients": states.step_gradients})
        peaks.append(_make_phase_peak("optimizer_step", step_parts))
        return StageTimeline(
            stage=stage,
            peaks=tuple(peaks),
            steady_bytes=_sum_steady_bytes(states, resident),
            states=states,
            parameters=parameters,
            in_flight=points[busiest].counts,
            layers=tuple(chunk.dense + chunk.sparse for chunk in chunks),
        )

    def find_peak(
        self, stage: int, chunks: tuple[StageLayers, ...], corrections: Corrections | None
    ) -> StagePeak:
        """Return a stage's highest phase peak, the first of equals."""
        _, states, resident = self._get_resident(chunks)
        running = self._list_running(stage, chunks)
        total, gradients = sum(resident.values()), resident["gradients"]
        peaks = [PhasePeakBytes("load", states.weights, 0, 0)]
        for name in INSTANTS:
            top, waiting_bytes, _ = find_highest_point(name, running)
            fixed_bytes = total + sum(self._get_deferred(name, chunks).values())
            if top is None:
                peaks.append(PhasePeakBytes(name, fixed_bytes, gradients, 0))
            else:
                peaks.append(
                    PhasePeakBytes(
                        name,
                        fixed_bytes + top.part_bytes + waiting_bytes,
                        gradients,
                        top.activations + waiting_bytes,
                    ),
                )
        step = states.step_gradients
        peaks.append(PhasePeakBytes("optimizer_step", total + step, gradients + step, 0))
        tokens = self.workload.micro_batch_size * self.workload.sequence_length
        highest = max(
            (correct_phase_peak(height, corrections, tokens) for height in peaks),
            key=attrgetter("allocated_bytes"),
        )
        return StagePeak(
            stage=stage, peak=highest, steady_bytes=_sum_steady_bytes(states, resident)
        )

    def _get_resident(
        self, chunks: tuple[StageLayers, ...]
    ) -> tuple[StageParameters, StageStates, Parts]:
        """Return what a stage of these chunks holds between steps."""
        layers = chunks[0] if len(chunks) == 1 else merge_chunks(chunks)
        resident = self.resident_cache.get(layers)
        if resident is None:
            resident = self.resident_cache[layers] = self._compute_resident(layers)
        return resident

    def _get_deferred(self, name: str, chunks: tuple[StageLayers, ...]) -> Parts:
        """Return what waits for the gradient of the head during a phase."""
        waiting = count_waiting(self.workload, in_backward=name == "backward")
        bytes_ = deferred_bytes(self.shape, chunks[-1], waiting, self.values)
        return {"logits": bytes_} if bytes_ else {}

    def _list_running(self, stage: int, chunks: tuple[StageLayers, ...]) -> RunningChunks:
        """Return a stage's chunks and the moments of its schedule."""
        steps = self.workload.gradient_accumulation_steps
        return RunningChunks(
            tuple([evaluate_chunk(self.recording, chunk, self.values) for chunk in chunks]),
            list_moments(self.layout, stage, steps),
        )

    def _compute_resident(self, layers: StageLayers) -> tuple[StageParameters, StageStates, Parts]:
        """Return what stages of these layers hold between steps."""
        parameters = count_stage_parameters(self.shape, layers)
        states = compute_stage_states(
            parameters, self.workload.precision, self.layout, self.workload.optimizer
        )
        shape, switches = self.shape, self.switches
        resident = {
            "weights": states.weights,
            "master_weights": states.master_weights,
            "gradients": states.gradients,
            "optimizer_states": states.optimizer_states,
            "temporaries": workspace_bytes(
                layers.with_predictors(sparse=shape.experts is not None),
                self.generation,
                switches,
                deterministic=self.workload.deterministic,
            )
            + (placeholder_bytes(shape, layers) if switches.fuses_gradients else 0),
            "communication_buffers": gather_buffer_bytes(shape, switches, layers, self.values)
            + received_bytes(shape, layers, self.layout.virtual_pipeline_stages, self.values),
        }
        return parameters, states, resident


def _build_phase_peak(name: str, resident: Parts, point: HighestPoint) -> PhasePeak:
    """Return the stage's peak of a phase."""
    top, waiting_bytes, _ = point
    if top is None:
        return _make_phase_peak(name, resident)
    return _make_phase_peak(
        name, _add_parts(resident, top.parts | {"activations": top.activations + waiting_bytes})
    )


def _sum_steady_bytes(states: StageStates, resident: Parts) -> int:
    # The step's own fp32 gradients go as the next one begins (``zero_grad``, training.py).
    buffers = resident["temporaries"] + resident["communication_buffers"]
    return states.resident + states.step_gradients + buffers


def _add_parts(resident: Parts, added: Parts) -> Parts:
    total = dict(resident)
    for name, bytes_ in added.items():
        total[name] = total.get(name, 0) + bytes_
    return total


def _make_phase_peak(name: str, parts: Parts) -> PhasePeak:
    return PhasePeak(name=name, allocated_bytes=sum(parts.values()), parts=parts)

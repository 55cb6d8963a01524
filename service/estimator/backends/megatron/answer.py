"""Estimate of framework ``megatron``: its worst pipeline stage, explained."""

from collections.abc import Iterable, Sequence
from functools import cache as cache_calls
from functools import partial

from service.estimator.backends.megatron.chunk_bytes import Recorder, ShapeRecording
from service.estimator.backends.megatron.chunks import record_chunk
from service.estimator.backends.megatron.shape import RankShape, Switches, count_expert_replicas
from service.estimator.backends.megatron.states import STATES_PER_PARAMETER
from service.estimator.backends.megatron.timeline import (
    StagePeak,
    StageTimeline,
    build_stage_timelines,
    compute_stage_peaks,
)
from service.estimator.backends.pass_cache import PassCache
from service.estimator.memory.answer.assemble import assemble
from service.estimator.memory.answer.explain import sort_parts
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.phase_peaks import PhasePeak
from service.estimator.memory.question import TrainQuestion
from service.estimator.model.architecture import Architecture
from service.estimator.rules.tables.training.megatron import TRAIN_MEGATRON
from service.estimator.values.layout import Layout
from service.estimator.values.memo import Memo
from service.estimator.values.result import (
    Basis,
    CheckpointBytes,
    Component,
    Detail,
    Estimate,
    Instant,
    Stage,
)
from service.estimator.values.units import format_count
from service.estimator.values.workload import TrainWorkload

MAX_SHAPES = 1024
_CORE_SOURCE = (
    "Megatron Core: core/distributed/param_and_grad_buffer.py, core/optimizer/distrib_optimizer.py"
)
_SAVED_SOURCE = (
    "tensors that Megatron Core's and Transformer Engine's autograd functions keep, read in their "
    "sources"
)


def answer(question: TrainQuestion, cache: PassCache) -> Estimate:
    """Estimate the memory of the worst stage in the steady state."""
    model, workload, layout = question.model, question.workload, question.layout
    device, corrections = question.device, question.corrections
    cache.get_checks(TRAIN_MEGATRON, model).check(workload, layout)
    recorder = _make_recorder(cache.get_memo("megatron", MAX_SHAPES))
    if question.detail is Detail.NUMBERS:
        partial_estimate = _outline_training(
            model,
            workload,
            layout,
            compute_stage_peaks(model, workload, layout, device, recorder, corrections),
        )
    else:
        timelines = build_stage_timelines(model, workload, layout, device, recorder)
        timelines = (
            tuple(line.with_corrections(corrections, question.num_tokens) for line in timelines)
            if corrections
            else timelines
        )
        partial_estimate = _explain_training(model, workload, layout, timelines)
    return assemble(partial_estimate, question, workload.precision.compute_dtype)


def _outline_training(
    model: Architecture, workload: TrainWorkload, layout: Layout, stages: tuple[StagePeak, ...]
) -> PartialEstimate:
    """Return the numbers of the worst stage without an explanation."""
    worst = max(stages, key=lambda line: line.peak.allocated_bytes)
    num_gpus = layout.num_gpus
    return PartialEstimate(
        num_gpus=num_gpus,
        linked_gpus=num_gpus,
        instants=(),
        peak=Instant(worst.peak.name, worst.peak.allocated_bytes),
        steady_bytes=worst.steady_bytes,
        components=tuple,
        approximate=model.spec.approximate,
        kind="megatron",
        allocator=workload.allocator,
        stages=tuple(
            [Stage(line.stage, line.peak.allocated_bytes, line.steady_bytes) for line in stages]
        ),
        worst_stage=worst.stage,
        assumptions=_list_assumptions(model),
        warnings=_list_warnings(workload, layout),
    )


def _explain_training(
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    timelines: tuple[StageTimeline, ...],
) -> PartialEstimate:
    """Return the worst stage with an explanation."""
    peaks = [line.peak for line in timelines]
    worst, peak = max(zip(timelines, peaks, strict=True), key=lambda pair: pair[1].allocated_bytes)
    phase_peaks = worst.peaks
    return PartialEstimate(
        num_gpus=layout.num_gpus,
        linked_gpus=layout.num_gpus,
        instants=tuple(
            Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in phase_peaks
        ),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=worst.steady_bytes,
        components=partial(_iter_components, workload, layout, worst, peak),
        phases=_build_phases(phase_peaks),
        checkpoint=_compute_checkpoint_bytes(model, workload),
        approximate=model.spec.approximate,
        kind="megatron",
        allocator=workload.allocator,
        stages=tuple(
            [
                Stage(
                    line.stage, top.allocated_bytes, line.steady_bytes, line.layers, line.in_flight
                )
                for line, top in zip(timelines, peaks, strict=True)
            ],
        ),
        worst_stage=worst.stage,
        assumptions=_list_assumptions(model),
        warnings=_list_warnings(workload, layout),
    )


def _make_recorder(memo: Memo[ShapeRecording]) -> Recorder:
    """Return a recorder that records each shape once."""

    def recorder(shape: RankShape, switches: Switches) -> ShapeRecording:
        return memo.get_or_make(
            (shape, switches),
            lambda: ShapeRecording(cache_calls(partial(record_chunk, shape, switches)), {}),
        )

    return recorder


def _build_phases(peaks: Sequence[PhasePeak]) -> tuple[Instant, ...]:
    """Return the peaks of forward, backward and optimizer step.

    Forward and backward include the loss.
    """
    by_name = {moment.name: moment.allocated_bytes for moment in peaks}
    return (
        Instant("forward_pass", max(by_name["forward"], by_name["loss"])),
        Instant("backward_pass", max(by_name["backward"], by_name["loss"])),
        Instant("optimizer_step", by_name["optimizer_step"]),
    )


def _compute_checkpoint_bytes(model: Architecture, workload: TrainWorkload) -> CheckpointBytes:
    precision, total = workload.precision, model.parameter_counts().total
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None else 0
    states = STATES_PER_PARAMETER[workload.optimizer] * precision.optimizer_dtype.bytes_per_element
    return CheckpointBytes(
        weights=total * precision.param_dtype.bytes_per_element, optimizer=total * (states + master)
    )


def _list_assumptions(model: Architecture) -> tuple[str, ...]:
    if not model.spec.num_experts:
        return ()
    return (
        (
            "tokens are routed evenly over experts: a rank whose experts are chosen more often "
            "holds more"
        ),
    )


def _list_warnings(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    warnings = []
    steps, stages = workload.gradient_accumulation_steps, layout.pipeline_parallel
    if steps < stages:
        warnings.append(
            f"gradient_accumulation_steps {steps} is fewer micro-batches than the {stages} "
            f"pipeline stages: {stages - steps} of them wait at any time",
        )
    if layout.zero_stage and layout.shards == 1:
        warnings.append("the distributed optimizer has no effect on one data-parallel rank")
    if workload.gradient_clipping:
        warnings.append(
            "gradient_clipping adds nothing to the peak: its norms are a few bytes per tensor"
        )
    return tuple(warnings)


def _iter_components(
    workload: TrainWorkload, layout: Layout, line: StageTimeline, peak: PhasePeak
) -> Iterable[Component]:
    """Yield the components of the highest phase peak.

    Each has its formula in numbers.
    """
    for name, bytes_ in sort_parts(peak.parts):
        basis, formula, source = _explain_component(name, workload, layout, line)
        yield Component(name, bytes_, basis, formula, source)


def _explain_component(
    name: str, workload: TrainWorkload, layout: Layout, line: StageTimeline
) -> tuple[Basis, str, str]:
    if name == "temporaries":
        what = (
            "workspaces of cuBLAS and Transformer Engine, a placeholder per shape of weight, what "
            "a kernel needs for a moment"
        )
        return Basis.FORMULA, what, _SAVED_SOURCE
    if name == "communication_buffers":
        what = (
            "the last input of each chunk with its gradient, and the sequence gathered for the "
            "head: both stay"
        )
        return (
            Basis.FORMULA,
            what,
            "core/pipeline_parallel/schedules.py, core/tensor_parallel/layers.py",
        )
    if name in {"activations", "logits"}:
        return Basis.FORMULA, _format_in_flight(workload, layout, line), _SAVED_SOURCE
    return Basis.EXACT, _format_bytes_by_parameter(name, workload, layout, line), _CORE_SOURCE


def _format_bytes_by_parameter(
    name: str, workload: TrainWorkload, layout: Layout, line: StageTimeline
) -> str:
    """Return the formula of a state's bytes.

    Experts are apart where other ranks share theirs.
    """
    precision, counts = workload.precision, line.parameters
    if name == "weights":
        return f"{format_count(counts.total)} params x {precision.param_dtype.bytes_per_element} B"
    if name == "gradients":
        width = precision.grad_dtype.bytes_per_element
        return f"{format_count(counts.total)} params x {width} B, a buffer that stays"
    count = STATES_PER_PARAMETER[workload.optimizer] if name == "optimizer_states" else 1
    shards = layout.shards if layout.zero_stage else 1
    replicas = count_expert_replicas(layout) if layout.zero_stage else 1
    factor = f"x {count} x {precision.optimizer_dtype.bytes_per_element} B"
    if not counts.experts or shards == replicas:
        return f"{format_count(counts.total)} params {factor}{_format_ranks(shards)}"
    return (
        f"{format_count(counts.dense)} params {factor}{_format_ranks(shards)} + "
        f"{format_count(counts.experts)} of experts {factor}{_format_ranks(replicas)}"
    )


def _format_ranks(shards: int) -> str:
    return f" / {shards} ranks" if shards > 1 else ""


def _format_in_flight(workload: TrainWorkload, layout: Layout, line: StageTimeline) -> str:
    counts = " + ".join(str(count) for count in line.in_flight)
    batch = f"{workload.micro_batch_size} x {workload.sequence_length} tokens"
    if layout.context_parallel > 1:
        batch += f" / {layout.context_parallel} context ranks"
    layers = " + ".join(str(count) for count in line.layers)
    return f"{counts} micro-batches of {batch} in flight on stage {line.stage}, of {layers} layers"

"""The answer of framework ``megatron``: the worst of its pipeline stages, explained."""

from collections.abc import Iterable, Sequence
from functools import cache, partial
from typing import Any

from service.estimator.backends.megatron.chunks import record_chunk
from service.estimator.backends.megatron.shape import Shape, Switches
from service.estimator.backends.megatron.states import STATES
from service.estimator.backends.megatron.support import check_megatron
from service.estimator.backends.megatron.timeline import (
    Recorded,
    Recorder,
    StagePeak,
    StageTimeline,
    stage_peaks,
    stage_timelines,
)
from service.estimator.memory.answer.assemble import Draft, assemble
from service.estimator.memory.answer.explain import ordered
from service.estimator.memory.intervals.ends import LEVEL
from service.estimator.memory.phase_peaks import Moment
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis, CheckpointBytes, Component, Detail, Estimate, Instant, Stage
from service.estimator.values.units import format_count
from service.estimator.values.workload import TrainWorkload

MAX_SHAPES = 1024
_CORE = "Megatron Core: core/distributed/param_and_grad_buffer.py, core/optimizer/distrib_optimizer.py"
_KEPT = "tensors that Megatron Core's and Transformer Engine's autograd functions keep, read in their sources"


def answer(  # noqa: PLR0913 - the front door of a framework: what is asked, where, and how much of the answer
    model: Architecture,
    workload: TrainWorkload,
    layout: Layout,
    device: Device,
    *,
    corrections: Corrections | None = None,
    memory: dict[object, Any] | None = None,
    detail: Detail = Detail.FULL,
    level: float = LEVEL,
) -> Estimate:
    """Return the memory of the worst stage in the steady state; ``memory`` keeps what was recorded for other questions."""
    check_megatron(model, workload, layout)
    recorder = _recording if memory is None else _remembering(memory)
    if detail is Detail.NUMBERS:
        draft = _outlined(model, workload, layout, stage_peaks(model, workload, layout, device, recorder, corrections))
    else:
        timelines = stage_timelines(model, workload, layout, device, recorder)
        tokens = workload.micro_batch_size * workload.sequence_length
        timelines = tuple(line.with_corrections(corrections, tokens) for line in timelines) if corrections else timelines
        draft = _drafted(model, workload, layout, timelines)
    warnings = device.warnings_for(workload.precision.compute_dtype)
    return assemble(draft, corrections=corrections, device=device, warnings=warnings, detail=detail, level=level)


def _outlined(model: Architecture, workload: TrainWorkload, layout: Layout, stages: tuple[StagePeak, ...]) -> Draft:
    """Return the numbers of the worst stage, and nothing that explains them."""
    worst = max(stages, key=lambda line: line.peak.allocated_bytes)
    num_gpus = layout.num_gpus
    return Draft(
        num_gpus=num_gpus,
        linked_gpus=num_gpus,
        instants=(),
        peak=Instant(worst.peak.name, worst.peak.allocated_bytes),
        steady_bytes=worst.steady_bytes,
        components=tuple,
        approximate=model.spec.approximate,
        kind="megatron",
        allocator=workload.allocator,
        stages=tuple([Stage(line.stage, line.peak.allocated_bytes, line.steady_bytes) for line in stages]),
        worst_stage=worst.stage,
        assumptions=_assumptions(model),
        warnings=_warnings(workload, layout),
    )


def _drafted(model: Architecture, workload: TrainWorkload, layout: Layout, timelines: tuple[StageTimeline, ...]) -> Draft:
    """Return the worst stage, explained."""
    peaks = [line.peak for line in timelines]
    worst, peak = max(zip(timelines, peaks, strict=True), key=lambda pair: pair[1].allocated_bytes)
    moments = worst.moments
    return Draft(
        num_gpus=layout.num_gpus,
        linked_gpus=layout.num_gpus,
        instants=tuple(Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in moments),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=worst.steady_bytes,
        components=partial(_components, workload, layout, worst, peak),
        phases=_phases(moments),
        checkpoint=_checkpoint(model, workload),
        approximate=model.spec.approximate,
        kind="megatron",
        allocator=workload.allocator,
        stages=tuple(
            [Stage(line.stage, top.allocated_bytes, line.steady_bytes) for line, top in zip(timelines, peaks, strict=True)]
        ),
        worst_stage=worst.stage,
        assumptions=_assumptions(model),
        warnings=_warnings(workload, layout),
    )


def _recording(shape: Shape, how: Switches) -> Recorded:
    return Recorded(partial(record_chunk, shape, how), {})


def _remembering(memory: dict[object, Any]) -> Recorder:
    """Return a recorder that looks in ``memory`` first."""

    def recorder(shape: Shape, how: Switches) -> Recorded:
        found: Recorded | None = memory.get((shape, how))
        if found is None:
            if len(memory) >= MAX_SHAPES:
                memory.clear()
            found = memory[shape, how] = Recorded(cache(partial(record_chunk, shape, how)), {})
        return found

    return recorder


def _phases(moments: Sequence[Moment]) -> tuple[Instant, ...]:
    """Return forward and backward, each with the loss, and the step."""
    by_name = {moment.name: moment.allocated_bytes for moment in moments}
    return (
        Instant("forward_pass", max(by_name["forward"], by_name["loss"])),
        Instant("backward_pass", max(by_name["backward"], by_name["loss"])),
        Instant("optimizer_step", by_name["optimizer_step"]),
    )


def _checkpoint(model: Architecture, workload: TrainWorkload) -> CheckpointBytes:
    precision, total = workload.precision, model.parameter_counts().total
    master = precision.master_dtype.bytes_per_element if precision.master_dtype is not None else 0
    states = STATES[workload.optimizer] * precision.optimizer_dtype.bytes_per_element
    return CheckpointBytes(weights=total * precision.param_dtype.bytes_per_element, optimizer=total * (states + master))


def _assumptions(model: Architecture) -> tuple[str, ...]:
    if not model.spec.num_experts:
        return ()
    return ("tokens are routed evenly over experts: a rank whose experts are chosen more often holds more",)


def _warnings(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    warnings = []
    steps, stages = workload.gradient_accumulation_steps, layout.pipeline_parallel
    if steps < stages:
        warnings.append(
            f"gradient_accumulation_steps {steps} is fewer micro-batches than the {stages} pipeline stages: "
            f"{stages - steps} of them wait at any time"
        )
    if layout.zero_stage and layout.shards == 1:
        warnings.append("the distributed optimizer has no effect on one data-parallel rank")
    if workload.gradient_clipping:
        warnings.append("gradient_clipping adds nothing to the peak: its norms are a few bytes per tensor")
    return tuple(warnings)


def _components(workload: TrainWorkload, layout: Layout, line: StageTimeline, peak: Moment) -> Iterable[Component]:
    """Return the components of the deciding moment, each with its formula in numbers."""
    for name, bytes_ in ordered(peak.parts):
        basis, formula, source = _explained(name, workload, layout, line)
        yield Component(name, bytes_, basis, formula, source)


def _explained(name: str, workload: TrainWorkload, layout: Layout, line: StageTimeline) -> tuple[Basis, str, str]:
    if name == "temporaries":
        what = (
            "workspaces of cuBLAS and Transformer Engine, a placeholder per shape of weight, what a kernel needs for a moment"
        )
        return Basis.FORMULA, what, _KEPT
    if name == "communication_buffers":
        what = "the last input of each chunk with its gradient, and the sequence gathered for the head: both stay"
        return Basis.FORMULA, what, "core/pipeline_parallel/schedules.py, core/tensor_parallel/layers.py"
    if name in {"activations", "logits"}:
        return Basis.FORMULA, _flying(workload, layout, line), _KEPT
    return Basis.EXACT, f"{format_count(line.held.total)} params x {_per_parameter(name, workload, layout)}", _CORE


def _per_parameter(name: str, workload: TrainWorkload, layout: Layout) -> str:
    precision, shards = workload.precision, layout.shards if layout.zero_stage else 1
    if name == "weights":
        return f"{precision.param_dtype.bytes_per_element} B"
    if name == "gradients":
        return f"{precision.grad_dtype.bytes_per_element} B, a buffer that stays"
    count = STATES[workload.optimizer] if name == "optimizer_states" else 1
    return f"{count} x {precision.optimizer_dtype.bytes_per_element} B" + (f" / {shards} ranks" if shards > 1 else "")


def _flying(workload: TrainWorkload, layout: Layout, line: StageTimeline) -> str:
    flying = " + ".join(str(count) for count in line.flying)
    batch = f"{workload.micro_batch_size} x {workload.sequence_length} tokens"
    if layout.context_parallel > 1:
        batch += f" / {layout.context_parallel} context ranks"
    return f"{flying} micro-batches of {batch} in flight on stage {line.stage}"

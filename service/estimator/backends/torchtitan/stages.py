"""Answer about torchtitan's pipeline: its worst stage, explained."""

from collections.abc import Iterator
from functools import partial

from service.estimator.backends.torchtitan.pipeline import TitanStage
from service.estimator.memory.answer.explain import sort_parts
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.phase_peaks import correct_phase_peaks
from service.estimator.memory.question import TrainQuestion
from service.estimator.values.layout import Layout
from service.estimator.values.result import Basis, CheckpointBytes, Component, Instant, Stage
from service.estimator.values.units import format_count
from service.estimator.values.workload import TrainWorkload

_STAGE = "torch 2.13 distributed/pipelining/stage.py"
_FSDP = "torch 2.13 distributed/fsdp/_fully_shard"
_SOURCES = {
    "gathered_weights": f"{_STAGE}: set_reshard_after_backward(False); schedules.py, UNSHARD",
    "gradients": f"{_STAGE}: set_requires_gradient_sync(False)",
    "communication_buffers": f"{_STAGE}: args_recv_info and grad_recv_info of every micro-batch",
    "temporaries": f"{_FSDP}/_fsdp_param.py, to_accumulated_grad_if_needed",
}


def explain_pipeline(
    question: TrainQuestion, stages: tuple[TitanStage, ...], checkpoint: CheckpointBytes
) -> PartialEstimate:
    """Return the worst stage with an explanation."""
    worst = max(stages, key=lambda line: line.peak.allocated_bytes)
    peaks = correct_phase_peaks(worst.peaks, question.corrections, question.num_tokens)
    peak = max(peaks, key=lambda moment: moment.allocated_bytes)
    return PartialEstimate(
        num_gpus=question.layout.num_gpus,
        linked_gpus=question.layout.num_gpus,
        instants=tuple(
            Instant(moment.name, moment.allocated_bytes, moment.parts) for moment in peaks
        ),
        peak=Instant(peak.name, peak.allocated_bytes),
        steady_bytes=worst.steady_bytes,
        components=partial(
            _iter_components, question.workload, question.layout, worst, sort_parts(peak.parts)
        ),
        checkpoint=checkpoint,
        approximate=question.model.spec.approximate,
        kind="torchtitan",
        allocator=question.workload.allocator,
        stages=tuple(
            Stage(
                line.stage,
                line.peak.allocated_bytes,
                line.steady_bytes,
                line.layers,
                line.in_flight,
            )
            for line in stages
        ),
        worst_stage=worst.stage,
        warnings=_list_warnings(question.workload, question.layout),
    )


def _list_warnings(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    steps, chunks = (
        workload.gradient_accumulation_steps,
        layout.pipeline_parallel * layout.virtual_pipeline_stages,
    )
    if steps >= chunks:
        return ()
    waits = f"the {chunks} chunks of the pipeline, some of which wait at any time"
    return (f"gradient_accumulation_steps {steps} is fewer micro-batches than {waits}",)


def _iter_components(
    workload: TrainWorkload, layout: Layout, line: TitanStage, parts: list[tuple[str, int]]
) -> Iterator[Component]:
    count = format_count(line.num_parameters)
    layers = " + ".join(str(number) for number in line.layers)
    running = " + ".join(str(number) for number in line.in_flight)
    batch = f"{workload.micro_batch_size} x {workload.sequence_length} tokens"
    formulas = {
        "gathered_weights": f"{count} params of {layers} layers, whole for the step",
        "gradients": f"{count} params, whole until the last micro-batch",
        "communication_buffers": f"{workload.gradient_accumulation_steps} micro-batches of "
        f"{batch}, received forward and backward",
        "temporaries": "a unit's gradients before they are added up",
    }
    in_flight = f"{running} micro-batches of {batch} in flight on stage {line.stage}"
    states = f"{count} params on stage {line.stage} / {layout.shards} ranks"
    for name, bytes_ in parts:
        is_state = name in {"weights", "master_weights", "optimizer_states"}
        formula = formulas.get(name, states if is_state else in_flight)
        source = _SOURCES.get(name, f"{_FSDP}; {_STAGE}")
        yield Component(name, bytes_, Basis.EXACT if is_state else Basis.FORMULA, formula, source)

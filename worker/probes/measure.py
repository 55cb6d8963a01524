"""From a request to a result: plan, run each point, extrapolate, explain."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from service.estimator.model.architecture import Architecture
from service.estimator.rules.obstacles import find_workload_obstacles
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import FailureKind, ProbeDevice, ProbeRequest, ProbeResult
from service.probing.asking import AnalyticEstimates, get_compute_dtype, parse_question
from service.probing.plan import NUM_STEPS, Point, ProbePlan, ProbeQuestion
from service.probing.planning import make_plan
from service.probing.refusal import Refusal
from worker.probes.answer import extrapolate_plan
from worker.probes.artifacts import ArtifactWriter
from worker.probes.attention.names import AttentionShape, Kernel, select_cuda_kernel
from worker.probes.progress import Emit, ProgressReporter
from worker.probes.ranks.group import check_rank
from worker.probes.ranks.parallelize import check_layout
from worker.probes.recording import read_or_record
from worker.probes.report import (
    RunContext,
    build_probe_reading,
    report,
    report_out_of_memory,
)
from worker.probes.run.backend import Backend, PointResult, ProbeSetup, SaveSnapshot, load_backend
from worker.probes.run.extrapolate import compute_instant_peaks


def measure(request: ProbeRequest, emit: Emit, *, backend: Backend | None = None) -> ProbeResult:
    """Run the probes that a request needs and return their result.

    Raises Refusal.
    """
    device = backend or load_backend(request.device)
    question, config = parse_question(request, read_or_record(request.task.workload))
    _check(question)
    analytic = AnalyticEstimates(question)
    setup = make_probe_setup(question, config, request.rank)
    check_rank(question.layout, request.rank)
    host = device.host(get_compute_dtype(question.workload))
    plan = make_plan(
        question, host, analytic.get_peak_function(host), analytic.get_host_share_function(host)
    )
    artifacts = ArtifactWriter(files=request.files)
    progress = ProgressReporter(
        emit=emit, plan=plan, host=host, steps_per_point=_count_steps(question)
    )
    results = _run_points(progress, setup, device, artifacts)
    if results[-1].out_of_memory_at is not None:
        return _add_artifacts(
            artifacts, report_out_of_memory(plan, results, RunContext(setup=setup, backend=device))
        )
    answer = extrapolate_plan(
        plan, [result.reading for result in results], question, analytic.instant_bytes
    )
    difference = (
        _describe_difference(question, setup.kernel) if device.device is ProbeDevice.CPU else None
    )
    result = report(
        plan, results, answer, RunContext(setup=setup, backend=device, difference=difference)
    )
    return _add_artifacts(artifacts, _add_pace(result, progress, setup, device))


def _add_pace(
    result: ProbeResult, progress: ProgressReporter, setup: ProbeSetup, backend: Backend
) -> ProbeResult:
    """Return the result with the run that tells of the machine alone.

    A result stands without it: what disturbs this run leaves it out.
    """
    if progress.plan.pace is None:
        return result
    point = progress.plan.pace.point
    try:
        run = backend.run(setup, point, on_step=progress.make_step_callback(point))
    except Refusal:
        return result
    if run.out_of_memory_at is not None or not run.transferable:
        return result
    return structs.replace(result, probes=(*result.probes, build_probe_reading(run)))


def _add_artifacts(artifacts: ArtifactWriter, result: ProbeResult) -> ProbeResult:
    return structs.replace(result, files=artifacts.saved, notes=(*result.notes, *artifacts.notes))


def _check(question: ProbeQuestion) -> None:
    check_layout(question.layout, question.workload)
    for _field, message in find_workload_obstacles(question.workload, question.layout):
        raise Refusal(FailureKind.UNSUPPORTED, message)


def make_probe_setup(
    question: ProbeQuestion, config: Mapping[str, object], rank: int
) -> ProbeSetup:
    """Build the settings that all points of a question share."""
    workload = question.workload
    shape = _build_attention_shape(question.architecture, workload)
    kernel = select_cuda_kernel(workload.attention, shape)
    return ProbeSetup(
        config=config, workload=workload, kernel=kernel, layout=question.layout, rank=rank
    )


def _build_attention_shape(architecture: Architecture, workload: Workload) -> AttentionShape:
    spec = architecture.spec
    masked = isinstance(workload, TrainWorkload) and workload.padding_mask
    slides = spec.sliding_window is not None and _count_positions(workload) > spec.sliding_window
    return AttentionShape(
        head_dim=spec.head_dim,
        grouped=spec.num_key_value_heads < spec.num_attention_heads,
        half_precision=get_compute_dtype(workload) is not DType.FP32,
        masked=masked or slides,
    )


def _describe_difference(question: ProbeQuestion, kernel: Kernel) -> str | None:
    """Describe where the CPU keeps other tensors than CUDA.

    Returns None where it keeps the same.
    """
    spec, trains = question.architecture.spec, isinstance(question.workload, TrainWorkload)
    if trains and kernel is Kernel.MATH and spec.attention_dropout:
        return (
            "the math kernel's dropout keeps a mask of the weights' dtype on a CPU and one of "
            "bytes on CUDA"
        )
    return None


def _count_positions(workload: Workload) -> int:
    if isinstance(workload, TrainWorkload):
        return workload.sequence_length
    return workload.prompt_tokens + workload.output_tokens


def _count_steps(question: ProbeQuestion) -> int:
    return 2 + (_SERVE_STEPS if isinstance(question.workload, ServeWorkload) else NUM_STEPS)


def _run_points(
    progress: ProgressReporter, setup: ProbeSetup, backend: Backend, artifacts: ArtifactWriter
) -> tuple[PointResult, ...]:
    progress.announce()
    results: list[PointResult] = []
    for point, save_snapshot in _iter_points(progress.plan, artifacts):
        result = backend.run(
            setup, point, on_step=progress.make_step_callback(point), save_snapshot=save_snapshot
        )
        progress.report_peak(compute_instant_peaks(result.reading.live))
        results.append(result)
        if result.out_of_memory_at is not None:
            break  # what is deeper or longer would run out of it too
    return tuple(results)


def _iter_points(
    plan: ProbePlan, artifacts: ArtifactWriter
) -> Iterator[tuple[Point, SaveSnapshot | None]]:
    """Yield the points of a plan, the largest with a snapshot callback.

    These are the points that are the largest so far: memory may run out in any of them.
    """
    save_snapshot = artifacts.make_saver(ArtifactName.MEMORY_SNAPSHOT)
    largest = (0, 0)
    for point in plan.points:
        size = point.num_layers, point.num_tokens
        yield point, save_snapshot if size >= largest else None
        largest = max(largest, size)


_SERVE_STEPS = 2
"""Prefill and decode."""

"""From a request to a result: plan, run each point, extrapolate, explain."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import FailureKind, ProbeDevice, ProbeRequest, ProbeResult
from service.jobs.runnable import workload_obstacles
from service.probing.asking import Analytic, compute_dtype, question_of
from service.probing.plan import NUM_STEPS, Plan, Point, Question
from service.probing.planning import make_plan
from service.probing.refusal import Refusal
from worker.probes.answer import answer_of
from worker.probes.artifacts import Shelf
from worker.probes.attention.names import AttentionShape, Kernel, cuda_kernel
from worker.probes.progress import Say, Teller
from worker.probes.ranks.group import check_rank
from worker.probes.ranks.parallelize import check_layout
from worker.probes.report import Ran, exhausted, report
from worker.probes.run.backend import Backend, Keep, Session, Subject, backend_for
from worker.probes.run.extrapolate import instants_of


def measure(request: ProbeRequest, say: Say, *, backend: Backend | None = None) -> ProbeResult:
    """Run the probes that a request needs and return what they found; raises Refusal."""
    device = backend or backend_for(request.device)
    question, config = question_of(request)
    _check(question)
    analytic = Analytic(question)
    subject = subject_of(question, config, request.rank)
    check_rank(question.layout, request.rank)
    bearable = device.host(compute_dtype(question.workload))
    plan = make_plan(question, bearable, analytic.held(bearable))
    shelf = Shelf(files=request.files)
    sessions = _run(Teller(say=say, plan=plan, host=bearable, steps_per_point=_num_steps(question)), subject, device, shelf)
    if sessions[-1].out_of_memory_at is not None:
        return _with(shelf, exhausted(plan, sessions, Ran(subject=subject, backend=device)))
    answer = answer_of(plan, [session.reading for session in sessions], question, analytic.instants)
    difference = _difference(question, subject.kernel) if device.device is ProbeDevice.CPU else None
    return _with(shelf, report(plan, sessions, answer, Ran(subject=subject, backend=device, difference=difference)))


def _with(shelf: Shelf, result: ProbeResult) -> ProbeResult:
    return structs.replace(result, files=shelf.kept, notes=(*result.notes, *shelf.notes))


def _check(question: Question) -> None:
    check_layout(question.layout, question.workload)
    for _field, message in workload_obstacles(question.workload, question.layout):
        raise Refusal(FailureKind.UNSUPPORTED, message)


def subject_of(question: Question, config: Mapping[str, object], rank: int) -> Subject:
    """Return what all points of a question have in common."""
    workload = question.workload
    shape = _attention_shape(question.architecture, workload)
    kernel = cuda_kernel(workload.attention, shape)
    return Subject(config=config, workload=workload, kernel=kernel, layout=question.layout, rank=rank)


def _attention_shape(architecture: Architecture, workload: Workload) -> AttentionShape:
    spec = architecture.spec
    masked = isinstance(workload, TrainWorkload) and workload.padding_mask
    slides = spec.sliding_window is not None and _num_positions(workload) > spec.sliding_window
    return AttentionShape(
        head_dim=spec.head_dim,
        grouped=spec.num_key_value_heads < spec.num_attention_heads,
        half_precision=compute_dtype(workload) is not DType.FP32,
        masked=masked or slides,
    )


def _difference(question: Question, kernel: Kernel) -> str | None:
    """Say where the CPU keeps other tensors than CUDA in spite of everything, ``None`` when nowhere."""
    spec, trains = question.architecture.spec, isinstance(question.workload, TrainWorkload)
    if trains and kernel is Kernel.MATH and spec.attention_dropout:
        return "the math kernel's dropout keeps a mask of the weights' dtype on a CPU and one of bytes on CUDA"
    return None


def _num_positions(workload: Workload) -> int:
    if isinstance(workload, TrainWorkload):
        return workload.sequence_length
    return workload.prompt_tokens + workload.output_tokens


def _num_steps(question: Question) -> int:
    return 2 + (_SERVE_STEPS if isinstance(question.workload, ServeWorkload) else NUM_STEPS)


def _run(teller: Teller, subject: Subject, backend: Backend, shelf: Shelf) -> tuple[Session, ...]:
    teller.announce()
    sessions: list[Session] = []
    for point, taker in _taken(teller.plan, shelf):
        session = backend.run(subject, point, tell=teller.about(point), keep=taker)
        teller.found(instants_of(session.reading.live))
        sessions.append(session)
        if session.out_of_memory_at is not None:
            break  # what is deeper or longer would run out of it too
    return tuple(sessions)


def _taken(plan: Plan, shelf: Shelf) -> Iterator[tuple[Point, Keep | None]]:
    """Yield the points, with what keeps a snapshot of those that are the largest so far: memory may run out in any of them."""
    taker = shelf.keeper(ArtifactName.MEMORY_SNAPSHOT)
    largest = (0, 0)
    for point in plan.points:
        size = point.num_layers, point.num_tokens
        yield point, taker if size >= largest else None
        largest = max(largest, size)


_SERVE_STEPS = 2
"""Prefill and decode."""

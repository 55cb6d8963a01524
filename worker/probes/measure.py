"""From a request to a result: plan, run each point, extrapolate, explain."""

from collections.abc import Iterator, Mapping

from msgspec import structs

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.dtypes import DType
from service.estimator.errors import EstimatorError
from service.estimator.estimate import estimate
from service.estimator.families.registry import architecture_from_config
from service.estimator.result import Estimate
from service.estimator.workload import ServeWorkload, TrainWorkload, Workload
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import FailureKind, ProbeDevice, ProbeRequest, ProbeResult
from service.jobs.runnable import workload_obstacles
from worker.probes.answer import answer_of
from worker.probes.backend import Backend, Keep, Session, Subject, backend_for
from worker.probes.extrapolate import instants_of
from worker.probes.kernels import AttentionShape, Kernel, cuda_kernel
from worker.probes.plan import NUM_STEPS, Plan, Point, Question, workload_at
from worker.probes.planning import make_plan
from worker.probes.ranks.group import check_rank
from worker.probes.ranks.parallelize import check_layout
from worker.probes.refusal import Refusal
from worker.probes.report import Ran, exhausted, report
from worker.probes.shelf import Shelf
from worker.probes.stack import keep
from worker.probes.teller import Say, Teller

_BOUNDLESS = Device(name="host", capacity_bytes=2**60, usable_bytes=2**60)
"""The analytic answer is asked for bytes, not for a verdict."""


def measure(request: ProbeRequest, say: Say, *, backend: Backend | None = None) -> ProbeResult:
    """Run the probes that a request needs and return what they found; raises Refusal."""
    device = backend or backend_for(request.device)
    question, config = _question(request)
    _check(question)
    analytic = _Analytic(question)
    subject = subject_of(question, config, request.rank)
    check_rank(question.layout, request.rank)
    bearable = device.host(_compute_dtype(question.workload))
    plan = make_plan(question, bearable, analytic.reserved if bearable.reserves else analytic.allocated)
    shelf = Shelf(files=request.files)
    sessions = _run(plan, subject, device, say, shelf)
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


class _Analytic:
    """The analytic answer at any point, remembered: a plan asks for the same point more than once."""

    def __init__(self, question: Question) -> None:
        self._question = question
        self._known: dict[Point, Estimate] = {}

    def instants(self, point: Point) -> Mapping[str, int]:
        """Return the bytes of each instant; raises Refusal where the estimator has no term."""
        return {instant.name: instant.allocated_bytes for instant in self._at(point).instants}

    def allocated(self, point: Point) -> int:
        """Return the bytes of the highest instant; raises Refusal as ``instants`` does."""
        return max(self.instants(point).values())

    def reserved(self, point: Point) -> int:
        """Return what a caching allocator may reserve at most, by its interval; raises Refusal as ``instants`` does."""
        return max(self._at(point).reserved_interval.high, self.allocated(point))

    def _at(self, point: Point) -> Estimate:
        if point not in self._known:
            self._known[point] = self._estimate(point)
        return self._known[point]

    def _estimate(self, point: Point) -> Estimate:
        question = self._question
        try:
            return estimate(
                keep(question.architecture, point.layers),
                workload_at(question.workload, point),
                layout=question.layout,
                device=_BOUNDLESS,
            )
        except EstimatorError as error:
            raise Refusal(FailureKind.UNSUPPORTED, error.message) from error


def _question(request: ProbeRequest) -> tuple[Question, Mapping[str, object]]:
    config = request.model.hf_config
    if config is None:
        message = 'a probe builds a real model, so it needs the model\'s config.json: ask with {"hf_config": {...}}'
        raise Refusal(FailureKind.INVALID_REQUEST, message)
    try:
        architecture = architecture_from_config(config)
    except EstimatorError as error:
        raise Refusal(FailureKind.INVALID_REQUEST, error.message) from error
    question = Question(
        architecture=architecture,
        workload=request.task.workload,
        layout=request.layout,
        full_depth=request.full_depth,
        deadline_s=request.deadline_s,
    )
    return question, config


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
        half_precision=_compute_dtype(workload) is not DType.FP32,
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


def _compute_dtype(workload: Workload) -> DType:
    return workload.precision.compute_dtype if isinstance(workload, TrainWorkload) else workload.weight_dtype


def _run(plan: Plan, subject: Subject, backend: Backend, say: Say, shelf: Shelf) -> tuple[Session, ...]:
    steps = 2 + (_SERVE_STEPS if isinstance(subject.workload, ServeWorkload) else NUM_STEPS)
    teller = Teller(say=say, plan=plan, steps_per_point=steps)
    teller.announce()
    sessions: list[Session] = []
    for point, taker in _taken(plan, shelf):
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

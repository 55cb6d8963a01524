"""Answers the questions of recorded runs as the service does, and compares."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from statistics import mean, median

from service.catalog.gpus import find_gpus
from service.cli.offline.inline import get_plan_cache, resolve_offline_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.validation_errors import decode
from service.estimator.memory.overheads.overheads import estimate_communicators
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate, Interval, Throughput
from service.estimator.values.workload import ServeWorkload
from service.jobs.contract import TrainTask
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.usecases.questions.fit import make_question_evaluator
from tests.accuracy.real.rows import (
    CLIENTS_ON,
    ClientRun,
    SweepRun,
    list_client_runs,
    list_sweep_runs,
    make_recorded_plans,
)
from tests.accuracy.real.words import write_body
from tests.gpu.sweep.predict import load_case_architecture

REQUESTED, RESERVED, DEVICE = "requested", "reserved", "device"
QUANTITIES = (REQUESTED, RESERVED, DEVICE)
TRAINER, TRL, GENERATE = "Trainer", "SFTTrainer", "generate()"
SWEEP_TRAINING, SWEEP_SERVING = "plain loop, training", "plain loop, serving"
CLIENTS = (TRAINER, TRL, GENERATE)
_CLIENTS = dict(zip(("trainer", "sft", "gen"), CLIENTS, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """An answered number of bytes with its interval, and the reading."""

    answer: int
    interval: Interval
    reading: int

    @property
    def error(self) -> float:
        """The answer over the reading, less one."""
        return self.answer / self.reading - 1

    @property
    def ratio(self) -> float:
        """The reading over the answer."""
        return self.reading / self.answer

    @property
    def covers(self) -> bool:
        """Whether the reading lies in the interval."""
        return self.interval.low <= self.reading <= self.interval.high

    @property
    def width(self) -> float:
        """The interval's width over the reading."""
        return (self.interval.high - self.interval.low) / self.reading


@dataclass(frozen=True, slots=True, kw_only=True)
class RealScore:
    """One recorded run beside its answer; ``seconds`` are those of a step or a generation."""

    group: str
    name: str
    model: str
    gpu: str
    pairs: dict[str, Pair]
    kind: str
    """The kind of answer whose residuals the intervals stand on."""
    reserved_kind: str
    answered_s: float | None = None
    measured_s: float | None = None
    warm_s: tuple[float, ...] = ()
    """Every warm step or generation, whose median ``measured_s`` is."""

    @property
    def time_error(self) -> float | None:
        """The answered time over the measured one, less one."""
        if self.answered_s is None or not self.measured_s:
            return None
        return self.answered_s / self.measured_s - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class RealRefusal:
    """A run that has no answer, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RealScores:
    """All recorded runs."""

    scores: tuple[RealScore, ...]
    refusals: tuple[RealRefusal, ...]

    def of(self, group: str) -> list[RealScore]:
        """Return the scores of a group."""
        return [score for score in self.scores if score.group == group]

    @property
    def groups(self) -> tuple[str, ...]:
        """The groups in the order of their first runs."""
        return tuple(dict.fromkeys(score.group for score in self.scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class RealSummary:
    """Absolute errors, coverage and the median width of some scores."""

    num_runs: int
    median: float
    mean: float
    max: float
    coverage: float
    width: float


def summarise(scores: Sequence[RealScore], quantity: str) -> RealSummary:
    """Summarise one quantity over scores that have it."""
    pairs = [score.pairs[quantity] for score in scores if quantity in score.pairs]
    errors = [abs(pair.error) for pair in pairs]
    return RealSummary(
        num_runs=len(pairs),
        median=median(errors),
        mean=mean(errors),
        max=max(errors),
        coverage=mean(pair.covers for pair in pairs),
        width=median(pair.width for pair in pairs),
    )


@cache
def score_real_runs() -> RealScores:
    """Answer and compare every recorded run."""
    scores: list[RealScore] = []
    refusals: list[RealRefusal] = []
    for name, score in _iter_questions():
        try:
            scores.append(score())
        except EstimatorError as error:
            refusals.append(RealRefusal(name=name, reason=str(error)))
    return RealScores(scores=tuple(scores), refusals=tuple(refusals))


def _iter_questions() -> Iterator[tuple[str, partial[RealScore]]]:
    for client in list_client_runs():
        yield client.name, partial(_score_client, client)
    for sweep in list_sweep_runs():
        yield sweep.case.name, partial(_score_sweep, sweep)


def _score_client(run: ClientRun) -> RealScore:
    request = decode(write_body(run, find_device(CLIENTS_ON).name), FitRequest)
    question = read_fit(request, resolve_offline_model(request.model))
    evaluator = make_question_evaluator(question, get_plan_cache(), None)
    answer = evaluator.answer(question.workload, question.layout)
    throughput = evaluator.get_throughput(question.workload, question.layout, answer)
    reading = run.reading
    output_tokens = (
        question.workload.output_tokens if isinstance(question.workload, ServeWorkload) else None
    )
    return RealScore(
        group=_CLIENTS[run.kind],
        name=run.name,
        model=run.model,
        gpu=CLIENTS_ON,
        # What a client asked for holds the workspaces, which are no tensors.
        pairs=_pair(
            answer,
            reading.requested_bytes - _get_workspace_bytes(answer),
            reading.reserved_bytes,
            reading.device_bytes,
        ),
        kind=answer.interval_kind,
        reserved_kind=answer.reserved_kind,
        answered_s=_sum_time(throughput, output_tokens),
        measured_s=reading.seconds,
        warm_s=reading.warm_s,
    )


def _score_sweep(run: SweepRun) -> RealScore:
    case, measured = run.case, run.measured
    evaluator = _make_case_evaluator(run)
    answer = _drop_communicators(
        evaluator.answer(case.task.workload, case.layout), case.layout.num_gpus
    )
    return RealScore(
        group=SWEEP_TRAINING if isinstance(case.task, TrainTask) else SWEEP_SERVING,
        name=case.name,
        model=case.model,
        gpu=run.gpu,
        pairs=_pair(answer, measured.live_bytes, measured.reserved_bytes, measured.device_bytes),
        kind=answer.interval_kind,
        reserved_kind=answer.reserved_kind,
    )


def _drop_communicators(answer: Estimate, num_gpus: int) -> Estimate:
    """Return an answer without NCCL's buffers.

    A rank of several ran alone on its GPU, beside ranks that exist by number only.
    """
    links, interval = estimate_communicators(num_gpus), answer.device_interval
    return replace(
        answer,
        device_bytes=answer.device_bytes - links.point,
        device_interval=Interval(interval.low - links.low, interval.high - links.high),
    )


def _make_case_evaluator(run: SweepRun) -> Evaluator:
    return make_evaluator(
        load_case_architecture(run.case),
        find_device(run.gpu),
        plans=make_recorded_plans(run.case.layout.num_gpus),
    )


@cache
def find_device(name: str) -> Device:
    """Return the device of the only GPU with a name."""
    (entry,) = find_gpus(name)
    return entry.to_device()


def _pair(
    answer: Estimate, requested: int | None, reserved: int | None, device: int | None
) -> dict[str, Pair]:
    pairs = (
        (REQUESTED, answer.allocated_bytes, answer.allocated_interval, requested),
        (RESERVED, answer.reserved_bytes, answer.reserved_interval, reserved),
        (DEVICE, answer.device_bytes, answer.device_interval, device),
    )
    return {
        name: Pair(answer=point, interval=interval, reading=reading)
        for name, point, interval, reading in pairs
        if reading is not None
    }


def _get_workspace_bytes(answer: Estimate) -> int:
    return sum(part.bytes for part in answer.components if part.name == "library_workspaces")


def _sum_time(throughput: Throughput | None, output_tokens: int | None) -> float | None:
    """Return the seconds of a step, or of a prefill and the decoded tokens after its own."""
    if throughput is None or output_tokens is None:
        return None if throughput is None else throughput.step_time_s
    if throughput.prefill_time_s is None:
        return None
    return throughput.prefill_time_s + (output_tokens - 1) * throughput.step_time_s

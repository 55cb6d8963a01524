"""The largest value of one quantity that still fits, proved from both sides: the answer there, and what one more lacks."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from service.estimator.errors import EstimatorError, InvalidInputError
from service.estimator.layout import Layout
from service.estimator.result import Estimate
from service.estimator.workload import ServeWorkload, TrainWorkload, Workload
from service.planner.moves import Config
from service.planner.pace import seconds_per_token
from service.planner.space import Question, configs
from service.planner.subject import Subject
from service.planner.verdict import Judgement, Verdict, judge, missing_bytes


class Maximized(StrEnum):
    """What is made as large as it goes."""

    MICRO_BATCH_SIZE = "micro_batch_size"
    SEQUENCE_LENGTH = "sequence_length"
    NUM_SEQUENCES = "num_sequences"
    LORA_RANK = "lora_rank"
    NUM_PARAMETERS = "num_parameters"


MOST = {
    Maximized.MICRO_BATCH_SIZE: 2**16,
    Maximized.SEQUENCE_LENGTH: 2**24,
    Maximized.NUM_SEQUENCES: 2**16,
    Maximized.LORA_RANK: 2**14,
    Maximized.NUM_PARAMETERS: 2 * 10**12,
}
"""Beyond this nobody asks; a search that reaches it says so."""
LEAST = {Maximized.NUM_PARAMETERS: 10**8}
STEP = {Maximized.NUM_PARAMETERS: 10**8}
"""Sizes of models are asked in steps of a tenth of a billion; everything else in ones."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One value in one configuration, and what came of it."""

    value: int
    workload: Workload
    layout: Layout
    estimate: Estimate
    judgement: Judgement
    missing_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The largest value that fits with its answer, and the next one with what it lacks; no value when not even the least fits.

    ``next`` is None when the largest value that anybody asks for fits, or when the next one cannot run at all: then
    ``refusal`` says why.
    """

    value: int | None
    best: Trial | None
    next: Trial | None
    refusal: str | None
    num_evaluated: int


SubjectOf = Callable[[int], Subject]


def find_ceiling(question: Question, maximized: Maximized, subject_of: SubjectOf) -> Ceiling:
    """Return the ceiling over everything that the request leaves open; equal ceilings go to the faster configuration.

    ``subject_of`` returns the model at a value: the same for all, but for the number of parameters. Raises EstimatorError
    when no configuration can run at the least value.
    """
    _check(question.workload, maximized)
    search = _Search(question, maximized, subject_of)
    least = LEAST.get(maximized, 1)
    candidates = list(configs(question, question.layout.num_gpus))
    found = [(config, reached) for config in candidates if (reached := search.bisect(config, least)) is not None]
    if not found:
        return search.nothing(candidates, least)
    (_, best) = max(found, key=lambda pair: (pair[1].value, -search.cost(pair[1])))
    following, refusal = search.following(next(config for config, reached in found if reached is best), best)
    return Ceiling(value=best.value, best=best, next=following, refusal=refusal, num_evaluated=search.num_evaluated)


def _check(workload: Workload, maximized: Maximized) -> None:
    serving = isinstance(workload, ServeWorkload)
    wrong = {Maximized.NUM_SEQUENCES: not serving, Maximized.MICRO_BATCH_SIZE: serving}.get(maximized, False)
    if wrong:
        task = "train" if serving else "serve"
        message = f"{maximized.value} is a word of task {task!r}, and this workload is another"
        raise InvalidInputError(message, field="maximize")
    if maximized is Maximized.LORA_RANK and (isinstance(workload, ServeWorkload) or workload.lora is None):
        message = 'lora_rank needs adapters: set task "train" and method "lora" or "qlora"'
        raise InvalidInputError(message, field="maximize")


class _Search:
    """Evaluates values of one quantity in the configurations of one question."""

    def __init__(self, question: Question, maximized: Maximized, subject_of: SubjectOf) -> None:
        self._question, self._maximized, self._subject_of = question, maximized, subject_of
        self._step = STEP.get(maximized, 1)
        self.num_evaluated = 0
        self._refusal: EstimatorError | None = None

    def bisect(self, config: Config, least: int) -> Trial | None:
        """Return the largest value that fits in a configuration; None when the least does not."""
        low = self._fits(config, least)
        if low is None:
            return None
        value, most = least, MOST[self._maximized]
        while value < most:  # doubling first: ceilings are small more often than large
            value = min(max(value * 2, value + self._step), most)
            tried = self._fits(config, value)
            if tried is None:
                break
            low = tried
        else:
            return low
        high = value
        while high - low.value > self._step:
            middle = (low.value + high) // 2 // self._step * self._step
            tried = self._fits(config, middle)
            low, high = (tried, high) if tried is not None else (low, middle)
        return low

    def following(self, config: Config, best: Trial) -> tuple[Trial | None, str | None]:
        """Return the next value's trial, or the reason that it cannot run."""
        if best.value >= MOST[self._maximized]:
            return None, f"{best.value} is the largest value that is asked for"
        try:
            return self._trial(config, best.value + self._step), None
        except EstimatorError as refusal:
            return None, str(refusal)

    def nothing(self, candidates: list[Config], least: int) -> Ceiling:
        """Return that not even the least value fits, with the configuration that comes nearest."""
        tried = [trial for config in candidates if (trial := self._tried(config, least)) is not None]
        if not tried:
            assert self._refusal is not None, "a configuration without a trial was refused"  # noqa: S101 - kept by _tried
            raise self._refusal
        nearest = min(tried, key=lambda trial: trial.missing_bytes)
        return Ceiling(value=None, best=None, next=nearest, refusal=None, num_evaluated=self.num_evaluated)

    def cost(self, trial: Trial) -> float:
        """Return the time per token; serving has one configuration."""
        if isinstance(trial.workload, ServeWorkload):
            return 0.0
        return seconds_per_token(self._subject_of(trial.value), trial.workload, trial.layout)

    def _fits(self, config: Config, value: int) -> Trial | None:
        trial = self._tried(config, value)
        return trial if trial is not None and trial.missing_bytes == 0 else None

    def _tried(self, config: Config, value: int) -> Trial | None:
        try:
            return self._trial(config, value)
        except EstimatorError as refusal:
            self._refusal = self._refusal or refusal
            return None

    def _trial(self, config: Config, value: int) -> Trial:
        subject = self._subject_of(value)
        workload, layout = _with(config[0], self._maximized, value), config[1]
        self.num_evaluated += 1
        estimate = subject.answer(workload, layout)
        judgement = judge(estimate, subject.device)
        confident = self._question.limits.confidence is not None
        missing = missing_bytes(estimate, subject.device, confident=confident)
        if judgement.verdict is Verdict.DOES_NOT_FIT:
            missing = max(missing, 1)
        return Trial(
            value=value, workload=workload, layout=layout, estimate=estimate, judgement=judgement, missing_bytes=missing
        )


def _with(workload: Workload, maximized: Maximized, value: int) -> Workload:
    match maximized, workload:
        case Maximized.SEQUENCE_LENGTH, ServeWorkload():
            return replace(workload, prompt_tokens=value)
        case Maximized.SEQUENCE_LENGTH, TrainWorkload():
            return replace(workload, sequence_length=value)
        case Maximized.MICRO_BATCH_SIZE, TrainWorkload():
            return replace(workload, micro_batch_size=value)
        case Maximized.NUM_SEQUENCES, ServeWorkload():
            return replace(workload, num_sequences=value)
        case Maximized.LORA_RANK, TrainWorkload(lora=lora) if lora is not None:
            return replace(workload, lora=replace(lora, rank=value))
        case _:
            return workload

"""The largest value up to which all that are tried fit, proved from both sides: the answer there, and what one more lacks.

What an allocator reserves does not grow evenly: beyond the next value, which does not fit, larger ones may fit again.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Framework, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Subject
from service.planner.fit.remedy_steps import Config
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.fit.verdict import Judgement, Verdict, judge, missing_bytes
from service.planner.plans.ceiling_values import Maximized, check_maximized, least_of, most_of, step_of, with_value
from service.planner.search.layout_options import Batch
from service.planner.search.layouts import Space
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question

SIZES = (10**8, 10**9, 10**10, 10**11)
"""Models whose layouts are tried: scaled families divide by other degrees the larger they are."""
DIVISIBLE = 2**20
"""Tokens that every degree which is a power of two divides: what layouts are listed for where a length is asked."""
MAX_ANSWERED = 2
"""Layouts of the largest values by their numbers whose answers are asked."""
MAX_PROBED = 8
"""Smaller values whose answers are asked beside the ceiling's, where a replay may reserve more for less."""


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
    """Return the ceiling over every layout that the request leaves open; equal ceilings go to the faster configuration.

    The GPUs are as many as ``max_gpus``. ``subject_of`` returns the model at a value: the same for all, but for the number of
    parameters. Numbers alone rank the layouts, and the best few are answered in full. Raises EstimatorError when no
    configuration can run at the least value.
    """
    check_maximized(question.workload, maximized)
    search = _Search(question, maximized, subject_of)
    candidates = _listed(question, maximized, subject_of)
    ranked = search.ranked(candidates)
    found = [
        (config, reached) for config, start in ranked[:MAX_ANSWERED] if (reached := search.near(config, start)) is not None
    ]
    if not found:
        return search.nothing([config for config, _ in ranked[:MAX_ANSWERED]])
    best_config, best = max(found, key=lambda pair: (pair[1].value, -search.cost(pair[1])))
    following, refusal = search.following(best_config, best)
    return Ceiling(value=best.value, best=best, next=following, refusal=refusal, num_evaluated=search.num_evaluated)


def _listed(question: Question, maximized: Maximized, subject_of: SubjectOf) -> list[Config]:
    """Return every configuration on so many GPUs, at its smallest micro batch and with its pipeline kept busy."""
    found: dict[Config, None] = {}
    refused: Config | None = None
    workload = question.workload
    if maximized is Maximized.SEQUENCE_LENGTH and isinstance(workload, TrainWorkload):
        question = replace(question, workload=replace(workload, sequence_length=DIVISIBLE))
    for size in SIZES if maximized is Maximized.NUM_PARAMETERS else (1,):
        subject = subject_of(size)
        space = Space(subject.architecture, question, Offer(device=subject.device))
        for slot in space.slots(question.limits.max_gpus):
            kept = {batch.recomputed: batch for batch in sorted(space.batches(slot), key=_preferred, reverse=True)}
            found.update(dict.fromkeys(space.config(slot, batch) for batch in kept.values()))
        refused = refused or space.refused
    if not found and refused is not None:
        found[refused] = None
    return list(found)


def _preferred(batch: Batch) -> tuple[int, int]:
    return batch.micro_batch_size, -batch.steps


class _Search:
    """Evaluates values of one quantity in the configurations of one question."""

    def __init__(self, question: Question, maximized: Maximized, subject_of: SubjectOf) -> None:
        self._question, self._maximized, self._subject_of = question, maximized, subject_of
        self.num_evaluated = 0
        self._confident = question.limits.confidence is not None
        self._refusal: EstimatorError | None = None
        of_one_model = maximized is not Maximized.NUM_PARAMETERS
        positions = subject_of(1).architecture.spec.max_position_embeddings if of_one_model else None
        self._most, self._end = most_of(maximized, positions)

    def ranked(self, configs: list[Config]) -> list[tuple[Config, int]]:
        """Return configurations with the largest value that their numbers allow, the largest first; 0 where none is.

        One is looked into only where it beats the best few before it.
        """
        found: list[tuple[int, int, Config]] = []
        for index, config in enumerate(configs):
            floor = found[MAX_ANSWERED - 1][0] if len(found) >= MAX_ANSWERED else -1
            if floor > 0 and not self._suffices(config, self._up(config, floor + 1)):
                continue
            found.append((self._largest(config, floor), -index, config))
            found.sort(key=lambda one: one[:2], reverse=True)
        return [(config, value) for value, _, config in found]

    def near(self, config: Config, start: int) -> Trial | None:
        """Return the largest value whose answer fits: near the one that numbers allow, whose reserve a replay may change."""
        step, least = self._step(config), self._least(config)
        value = max(start, least)
        low, high, jump = self._fits(config, value), value, step
        while low is None and value > least:
            high, value = value, max(value - jump, least)
            low, jump = self._fits(config, value), jump * 2
        if low is None:
            return None
        if high == value:
            low, high = self._above(config, low)
        return self._without_gaps(config, self._between(config, low, high))

    def _between(self, config: Config, low: Trial, high: int) -> Trial:
        """Return a value that fits below one that does not, with nothing between them and the next one."""
        step = self._step(config)
        while high - low.value > step:
            middle = low.value + (high - low.value) // (2 * step) * step
            tried = self._fits(config, middle)
            low, high = (tried, high) if tried is not None else (low, middle)
        return low

    def _without_gaps(self, config: Config, found: Trial) -> Trial | None:
        """Return a value below which every one that is tried fits as well: an allocator may reserve less for more.

        All are tried where they are few, and else as many of the last quarter: below it holes would have to be a third of what
        is allocated.
        """
        workload, step, least = config[0], self._step(config), self._least(config)
        if not isinstance(workload, TrainWorkload) or workload.framework is not Framework.TRANSFORMERS:
            return found  # nothing else is replayed, and numbers grow
        first = least if found.value - least <= MAX_PROBED * step else self._up(config, found.value * 3 // 4)
        low: Trial | None = None
        for value in range(first, found.value, self._up(config, ceil_div(max(found.value - first, 1), MAX_PROBED))):
            tried = self._fits(config, value)
            if tried is None:
                if value == least:
                    return None
                return (
                    self.near(config, value - step)
                    if low is None
                    else self._without_gaps(config, self._between(config, low, value))
                )
            low = tried
        return found

    def _above(self, config: Config, low: Trial) -> tuple[Trial, int]:
        """Return a value that fits, and a larger one that does not or that nobody asks for."""
        jump = self._step(config)
        while low.value + jump <= self._most:
            tried = self._fits(config, low.value + jump)
            if tried is None:
                return low, low.value + jump
            low, jump = tried, jump * 2
        return low, low.value + jump

    def following(self, config: Config, best: Trial) -> tuple[Trial | None, str | None]:
        """Return the next value's trial, or the reason that it cannot run."""
        following = best.value + self._step(config)
        if following > self._most:
            return None, self._end
        try:
            return self._trial(config, following), None
        except EstimatorError as refusal:
            return None, str(refusal)

    def nothing(self, candidates: list[Config]) -> Ceiling:
        """Return that not even the least value fits, with the configuration that comes nearest."""
        tried = [trial for config in candidates if (trial := self._tried(config, self._least(config))) is not None]
        if not tried:
            raise self._refusal or InvalidInputError("no layout of so many GPUs can be had", field="layout")
        nearest = min(tried, key=lambda trial: trial.missing_bytes)
        return Ceiling(value=None, best=None, next=nearest, refusal=None, num_evaluated=self.num_evaluated)

    def _largest(self, config: Config, floor: int) -> int:
        """Return the largest value that numbers allow, by doubling and bisection; 0 where the least is too large."""
        step, low = self._step(config), self._up(config, max(floor + 1, self._least(config)))
        if not self._suffices(config, low):
            return 0
        high = low
        while high < self._most:
            low, high = high, min(high * 2, self._most // step * step)
            if not self._suffices(config, high):
                break
            if high + step > self._most:
                return high
        while high - low > step:
            middle = low + (high - low) // (2 * step) * step
            low, high = (middle, high) if self._suffices(config, middle) else (low, middle)
        return low

    def _suffices(self, config: Config, value: int) -> bool:
        subject, workload = self._subject_of(value), with_value(config, self._maximized, value)
        self.num_evaluated += 1
        try:
            estimate = subject.numbers(workload, config[1])
        except EstimatorError as refusal:
            self._refusal = self._refusal or refusal
            return False
        return not missing_bytes(estimate, subject.device, confident=self._confident)

    def _up(self, config: Config, value: int) -> int:
        return ceil_div(value, self._step(config)) * self._step(config)

    def _step(self, config: Config) -> int:
        return step_of(config, self._maximized)

    def _least(self, config: Config) -> int:
        return self._up(config, least_of(config, self._maximized))

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
        workload, layout = with_value(config, self._maximized, value), config[1]
        self.num_evaluated += 1
        estimate = subject.answer(workload, layout)
        judgement = judge(estimate, subject.device)
        missing = missing_bytes(estimate, subject.device, confident=self._confident)
        if judgement.verdict is Verdict.DOES_NOT_FIT:
            missing = max(missing, 1)
        return Trial(
            value=value, workload=workload, layout=layout, estimate=estimate, judgement=judgement, missing_bytes=missing
        )

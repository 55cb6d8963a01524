"""Search for the largest fitting value of one quantity."""

from collections.abc import Callable
from dataclasses import dataclass

from service.estimator.memory.image_inputs import resolve_images
from service.estimator.values.errors import EstimatorError, InvalidInputError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Framework, ServeWorkload, TrainWorkload, Workload
from service.planner.fit.evaluator import Config, Evaluator
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.fit.verdict import Judgement, Verdict, judge, missing_bytes
from service.planner.plans.ceiling_values import (
    Maximized,
    get_max_value,
    get_min_value,
    get_step,
    set_value,
)
from service.planner.search.search_space import Question

MAX_ANSWERED = 2
"""Layouts of the largest values by their numbers that are answered in full."""
MAX_PROBED = 8
"""Smaller values that are answered beside the ceiling, where a replay may reserve more for less."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One value in one configuration, with its estimate and verdict."""

    value: int
    workload: Workload
    layout: Layout
    estimate: Estimate
    judgement: Judgement
    missing_bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Ceiling:
    """The largest value that fits, and the next one that does not.

    Each has its answer or what it lacks; there is no value when not even the least fits.

    ``next`` is None when the largest value that anybody asks for fits, or when the next one cannot
    run at all: then ``refusal`` says why.
    """

    value: int | None
    best: Trial | None
    next: Trial | None
    refusal: str | None
    num_evaluated: int
    notes: tuple[str, ...] = ()
    """What the best trial asks in place of the request."""


EvaluatorFor = Callable[[int], Evaluator]


class CeilingSearch:
    """Evaluates values of one quantity in the configurations of one question."""

    def __init__(
        self, question: Question, maximized: Maximized, evaluator_for: EvaluatorFor
    ) -> None:
        """Set up the search; nothing is evaluated before it is asked."""
        self._question, self._maximized, self._evaluator_for = question, maximized, evaluator_for
        self.num_evaluated = 0
        self._is_confident = question.limits.confidence is not None
        self._refusal: EstimatorError | None = None
        is_one_model = maximized is not Maximized.NUM_PARAMETERS
        positions = (
            evaluator_for(1).architecture.spec.max_position_embeddings if is_one_model else None
        )
        self._max_value, self._end_reason = get_max_value(maximized, positions)

    def rank_configs(self, configs: list[Config]) -> list[tuple[Config, int]]:
        """Rank configurations by the largest value that their numbers allow.

        The largest comes first; 0 where none is allowed. A configuration is evaluated only where it
        beats the best few before it.
        """
        ranked_configs: list[tuple[int, int, Config]] = []
        for index, config in enumerate(configs):
            floor = (
                ranked_configs[MAX_ANSWERED - 1][0] if len(ranked_configs) >= MAX_ANSWERED else -1
            )
            if floor > 0 and not self._suffices(config, self._round_up(config, floor + 1)):
                continue
            ranked_configs.append((self._find_largest(config, floor), -index, config))
            ranked_configs.sort(key=lambda entry: entry[:2], reverse=True)
        return [(config, value) for value, _, config in ranked_configs]

    def find_near(self, config: Config, start: int) -> Trial | None:
        """Find the largest value whose answer fits, near ``start``.

        ``start`` is the one that numbers allow, whose reserve a replay may change.
        """
        step, min_value = self._get_step(config), self._get_min_value(config)
        value = max(start, min_value)
        low, high, jump = self._try_fitting(config, value), value, step
        while low is None and value > min_value:
            high, value = value, max(value - jump, min_value)
            low, jump = self._try_fitting(config, value), jump * 2
        if low is None:
            return None
        if high == value:
            low, high = self._double_up(config, low)
        return self._find_gapless(config, self._bisect(config, low, high))

    def _bisect(self, config: Config, low: Trial, high: int) -> Trial:
        """Bisect between a value that fits and one that does not.

        Nothing lies between the result and the next value.
        """
        step = self._get_step(config)
        while high - low.value > step:
            middle = low.value + (high - low.value) // (2 * step) * step
            tried = self._try_fitting(config, middle)
            low, high = (tried, high) if tried is not None else (low, middle)
        return low

    def _find_gapless(self, config: Config, trial: Trial) -> Trial | None:
        """Find a value below which every one that is tried fits.

        An allocator may reserve less for more.

        All are tried where they are few, and else as many of the last quarter: below it holes would
        have to be a third of what is allocated.
        """
        workload, step, min_value = config[0], self._get_step(config), self._get_min_value(config)
        if (
            not isinstance(workload, TrainWorkload)
            or workload.framework is not Framework.TRANSFORMERS
        ):
            return trial  # nothing else is replayed, and numbers grow
        first = (
            min_value
            if trial.value - min_value <= MAX_PROBED * step
            else self._round_up(config, trial.value * 3 // 4)
        )
        low: Trial | None = None
        for value in range(
            first,
            trial.value,
            self._round_up(config, ceil_div(max(trial.value - first, 1), MAX_PROBED)),
        ):
            tried = self._try_fitting(config, value)
            if tried is None:
                if value == min_value:
                    return None
                return (
                    self.find_near(config, value - step)
                    if low is None
                    else self._find_gapless(config, self._bisect(config, low, value))
                )
            low = tried
        return trial

    def _double_up(self, config: Config, low: Trial) -> tuple[Trial, int]:
        """Double the step until a value does not fit.

        Returns a value that fits, and a larger one that does not or that is beyond the largest.
        """
        jump = self._get_step(config)
        while low.value + jump <= self._max_value:
            tried = self._try_fitting(config, low.value + jump)
            if tried is None:
                return low, low.value + jump
            low, jump = tried, jump * 2
        return low, low.value + jump

    def try_next(self, config: Config, best: Trial) -> tuple[Trial | None, str | None]:
        """Return the next value's trial, or the reason that it cannot run."""
        following = best.value + self._get_step(config)
        if following > self._max_value:
            return None, self._end_reason
        try:
            return self._evaluate_value(config, following), None
        except EstimatorError as refusal:
            return None, str(refusal)

    def make_empty_ceiling(self, candidates: list[Config]) -> Ceiling:
        """Return a ceiling without a value.

        Not even the least value fits; the configuration that comes nearest is shown.
        """
        tried = [
            trial
            for config in candidates
            if (trial := self._try_value(config, self._get_min_value(config))) is not None
        ]
        if not tried:
            raise self._refusal or InvalidInputError(
                "no layout of so many GPUs can be had", field="layout"
            )
        nearest = min(tried, key=lambda trial: trial.missing_bytes)
        return Ceiling(
            value=None, best=None, next=nearest, refusal=None, num_evaluated=self.num_evaluated
        )

    def _find_largest(self, config: Config, floor: int) -> int:
        """Find the largest value that numbers allow.

        By doubling and bisection; 0 where the least is too large.
        """
        step, low = (
            self._get_step(config),
            self._round_up(config, max(floor + 1, self._get_min_value(config))),
        )
        if not self._suffices(config, low):
            return 0
        high = low
        while high < self._max_value:
            low, high = high, min(high * 2, self._max_value // step * step)
            if not self._suffices(config, high):
                break
            if high + step > self._max_value:
                return high
        while high - low > step:
            middle = low + (high - low) // (2 * step) * step
            low, high = (middle, high) if self._suffices(config, middle) else (low, middle)
        return low

    def _suffices(self, config: Config, value: int) -> bool:
        evaluator, workload = self._evaluator_for(value), set_value(config, self._maximized, value)
        self.num_evaluated += 1
        try:
            estimate = evaluator.estimate_numbers(workload, config[1])
        except EstimatorError as refusal:
            self._refusal = self._refusal or refusal
            return False
        return not missing_bytes(estimate, evaluator.device, confident=self._is_confident)

    def _round_up(self, config: Config, value: int) -> int:
        return ceil_div(value, self._get_step(config)) * self._get_step(config)

    def _get_step(self, config: Config) -> int:
        return get_step(config, self._maximized)

    def _get_min_value(self, config: Config) -> int:
        least = max(get_min_value(config, self._maximized), self._count_image_tokens(config))
        return self._round_up(config, least)

    def _count_image_tokens(self, config: Config) -> int:
        """Return the tokens that no sequence can be shorter than."""
        if self._maximized is not Maximized.SEQUENCE_LENGTH:
            return 0
        images = resolve_images(self._evaluator_for(1).architecture, config[0])
        return 0 if images is None else images.sequence_tokens

    def get_cost(self, trial: Trial) -> float:
        """Return the time per token; serving has one configuration."""
        if isinstance(trial.workload, ServeWorkload):
            return 0.0
        return seconds_per_token(self._evaluator_for(trial.value), trial.workload, trial.layout)

    def _try_fitting(self, config: Config, value: int) -> Trial | None:
        trial = self._try_value(config, value)
        return trial if trial is not None and trial.missing_bytes == 0 else None

    def _try_value(self, config: Config, value: int) -> Trial | None:
        try:
            return self._evaluate_value(config, value)
        except EstimatorError as refusal:
            self._refusal = self._refusal or refusal
            return None

    def _evaluate_value(self, config: Config, value: int) -> Trial:
        evaluator = self._evaluator_for(value)
        workload, layout = set_value(config, self._maximized, value), config[1]
        self.num_evaluated += 1
        estimate = evaluator.answer(workload, layout)
        judgement = judge(estimate, evaluator.device)
        missing = missing_bytes(estimate, evaluator.device, confident=self._is_confident)
        if judgement.verdict is Verdict.DOES_NOT_FIT:
            missing = max(missing, 1)
        return Trial(
            value=value,
            workload=workload,
            layout=layout,
            estimate=estimate,
            judgement=judgement,
            missing_bytes=missing,
        )

"""Changed configurations, judged by numbers and answered in full."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

from service.estimator.rules.violations import Legality
from service.estimator.values.errors import EstimatorError
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Engine, Method, ServeWorkload, TrainWorkload
from service.planner.fit.changes import list_changes
from service.planner.fit.evaluator import Config, Evaluator
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict, judge, missing_bytes, needed_bytes
from service.planner.remedies.costs import (
    NO_PRICES,
    Prices,
    TimedConfig,
    compare_costs,
    time_config,
)
from service.planner.remedies.effects import describe_effects
from service.planner.search.bounds import StateBytes, compute_state_bytes
from service.planner.search.layout_options import LayoutOption
from service.planner.search.strategies import Strategy

MAX_ESTIMATES = 600
"""Estimates of engines' replicas in one search, some tenths of a millisecond each."""
MAX_RECORDED_ESTIMATES = 120
"""Estimates whose passes are recorded, up to ten milliseconds each."""
_RANK = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.DOES_NOT_FIT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A configuration judged by numbers.

    ``is_possible`` is false where no replay of the allocator could make it fit: its least bytes
    have no room. ``missing_bytes`` is its shortage at the upper end of the interval.
    """

    config: Config
    estimate: Estimate
    missing_bytes: int
    is_possible: bool

    def has_room_for_weights(self, usable_bytes: int) -> bool:
        """Return whether a replica's weights alone have room.

        Of training they are not looked at.
        """
        weights = sum(part.bytes for part in self.estimate.components if part.name == "weights")
        return not isinstance(self.config[0], ServeWorkload) or weights <= usable_bytes


class Trials:
    """Trials of one question, each worked out once and within a limit."""

    def __init__(
        self,
        evaluator: Evaluator,
        base: Config,
        *,
        max_gpus: int | None = None,
        max_estimates: int | None = None,
        prices: Prices = NO_PRICES,
    ) -> None:
        """Answer the question itself, to which all others are compared."""
        self.evaluator, self.base, self.prices = evaluator, base, prices
        self.is_recorded = _records_passes(base)
        usual = MAX_RECORDED_ESTIMATES if self.is_recorded else MAX_ESTIMATES
        self.max_estimates = usual if max_estimates is None else max_estimates
        self.num_estimates, self.is_complete = 0, True
        estimate = evaluator.answer(*base)
        self.base_needed_bytes = needed_bytes(estimate)
        self.base_time = time_config(evaluator, base, estimate, prices)
        self._max_gpus = max_gpus
        self._legality = Legality(evaluator.architecture)
        self._trials: dict[Config, Trial | None] = {}
        self._answers: dict[Config, Remedy | None] = {}
        self._states: dict[object, StateBytes] = {}

    def allow(self, num_estimates: int) -> None:
        """Allow so many estimates more.

        They are counted from the limit, or from what was made within it.
        """
        self.max_estimates = min(self.max_estimates, self.num_estimates) + num_estimates

    def list_legal(self, configs: Iterable[Config]) -> list[Config]:
        """Return the configurations that the rules and the limit of GPUs allow.

        They end where one contradicts itself.
        """
        return [config for config in _iter_runnable(configs) if self._is_legal(config)]

    def try_numbers(self, config: Config, *, prunes: bool = True) -> Trial | None:
        """Judge a configuration by numbers alone.

        None when it cannot run, or the limit is reached, or it ``prunes`` and the states alone have
        no room.
        """
        if config not in self._trials:
            if not self._is_legal(config) or (prunes and not self._has_room_for_states(config)):
                return None
            if self.num_estimates >= self.max_estimates:
                self.is_complete = False
                return None
            self.num_estimates += 1
            with suppress(EstimatorError):
                self._trials[config] = self._judge(config)
            self._trials.setdefault(config, None)
        return self._trials[config]

    def answer(self, config: Config) -> Remedy | None:
        """Return a configuration answered in full, as a question of its own.

        None when it cannot run, or neither fits nor saves anything.
        """
        if config not in self._answers:
            with suppress(EstimatorError):
                self._answers[config] = self._answer(config)
            self._answers.setdefault(config, None)
        return self._answers[config]

    def time(self, trial: Trial) -> TimedConfig:
        """Return the time of a configuration that was judged by numbers."""
        return time_config(self.evaluator, trial.config, trial.estimate, self.prices)

    def _is_legal(self, config: Config) -> bool:
        is_within_limit = self._max_gpus is None or config[1].num_gpus <= self._max_gpus
        return is_within_limit and self._legality.find_violation(*config) is None

    def _has_room_for_states(self, config: Config) -> bool:
        workload, layout = config
        if not isinstance(workload, TrainWorkload):
            return True
        key = (
            workload.method,
            workload.lora,
            workload.precision,
            workload.optimizer,
            workload.optimizer_in_backward,
        )
        if key not in self._states:
            self._states[key] = compute_state_bytes(self.evaluator.architecture, workload)
        option = LayoutOption(
            strategy=Strategy(name=workload.framework.value, framework=workload.framework),
            layout=layout,
            offload=workload.offload,
        )
        state_bytes = self._states[key].compute_rank_bytes(option)
        return workload.method is Method.PEFT or state_bytes <= self.evaluator.device.usable_bytes

    def _judge(self, config: Config) -> Trial:
        evaluator, device = self.evaluator, self.evaluator.device
        if not self.is_recorded:
            # The time of a replica rests on its components; nothing of an engine's is replayed.
            estimate = evaluator.answer(*config)
            missing = missing_bytes(estimate, device, confident=True)
            possible = missing == 0
            return Trial(
                config=config, estimate=estimate, missing_bytes=missing, is_possible=possible
            )
        bound = evaluator.lower_bound(*config)
        if bound is not None and (missing := missing_bytes(bound, device, confident=True)):
            return Trial(config=config, estimate=bound, missing_bytes=missing, is_possible=False)
        explains = isinstance(config[0], ServeWorkload)
        estimate = (evaluator.evaluate if explains else evaluator.estimate_numbers)(*config)
        missing = missing_bytes(estimate, device, confident=True)
        possible = bound is not None or not missing_bytes(estimate, device, confident=False)
        return Trial(config=config, estimate=estimate, missing_bytes=missing, is_possible=possible)

    def _answer(self, config: Config) -> Remedy | None:
        estimate = self.evaluator.answer(*config)
        verdict = judge(estimate, self.evaluator.device).verdict
        saved_bytes = self.base_needed_bytes - needed_bytes(estimate)
        if saved_bytes <= 0 and verdict is not Verdict.FITS:
            return None
        change = list_changes(self.base, config)
        return self.build_remedy(self.evaluator, config, estimate, change, verdict)

    def build_remedy(
        self,
        evaluator: Evaluator,
        config: Config,
        estimate: Estimate,
        change: Mapping[str, object],
        verdict: Verdict,
    ) -> Remedy:
        """Return the remedy of a configuration that was answered on a GPU."""
        timed = time_config(evaluator, config, estimate, self.prices)
        return Remedy(
            change=change,
            saves_bytes=max(self.base_needed_bytes - needed_bytes(estimate), 0),
            verdict=verdict,
            cost=compare_costs(timed, self.base_time),
            effects=describe_effects(evaluator.architecture, self.base, config),
            gpu=evaluator.device.name,
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
        )


def rank_by_cost(remedy: Remedy) -> tuple[int, float, int, int]:
    """Return the rank of a remedy: its verdict, then what it costs."""
    cost = remedy.cost.cost_ratio
    dearness = float("inf") if cost is None else cost
    return _RANK[remedy.verdict], dearness, remedy.num_gpus, -remedy.saves_bytes


def _records_passes(config: Config) -> bool:
    """Return whether passes are recorded and replayed.

    They are of all but engines' replicas.
    """
    workload = config[0]
    return isinstance(workload, TrainWorkload) or workload.engine is Engine.TRANSFORMERS


def _iter_runnable(configs: Iterable[Config]) -> Iterator[Config]:
    """Yield configurations until one contradicts itself."""
    with suppress(EstimatorError):
        yield from configs

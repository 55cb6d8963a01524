"""Remedies for a configuration that does not fit.

Each change is tried on the model itself.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, islice

from service.estimator.rules.violations import Legality
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.candidates import Candidate
from service.planner.fit.changes import list_changes
from service.planner.fit.evaluator import Evaluate, Evaluator
from service.planner.fit.remedy_order import REMEDY_STEPS
from service.planner.fit.remedy_steps import Config, RemedyStep
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.fit.verdict import Verdict, judge, needed_bytes

MAX_REMEDIES = 8
MAX_ANSWERED_PAIRS = 2 * MAX_REMEDIES
"""Pairs whose allocator is replayed, some milliseconds each."""
MAX_ANSWERED_STEPS = 3
_RANK = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.DOES_NOT_FIT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change, the bytes it saves per GPU and its verdict.

    Asked by itself, it gives the same.

    ``slowdown`` is the time of one GPU per token against before: with more GPUs that of the whole
    job falls.
    """

    change: Mapping[str, object]
    saves_bytes: int
    verdict: Verdict
    slowdown: float
    num_gpus: int
    workload: Workload
    layout: Layout


def find_remedies(
    evaluator: Evaluator,
    workload: Workload,
    layout: Layout,
    estimate: Estimate,
    *,
    max_gpus: int | None = None,
) -> tuple[Remedy, ...]:
    """Return changes that save memory.

    Those that suffice come first, cheapest in time first; pairs where no single one suffices.

    Of the steps of one kind (micro batch 4, 2, 1) the first that suffices is kept, or the one that
    saves most. More GPUs are proposed only where they suffice, and never more than ``max_gpus``.
    Numbers alone rule out what cannot fit; what is shown is answered in full.
    """
    legality = Legality(evaluator.architecture)
    trial = _Trial(
        evaluator=evaluator, base_config=(workload, layout), legality=legality, max_gpus=max_gpus
    )
    saving = {
        move: best_step
        for move in REMEDY_STEPS
        if (best_step := _find_best_step(trial, move(trial.base_config)))
    }
    remedies = _select_best(trial, saving.values(), estimate.num_gpus)
    if any(remedy.verdict is Verdict.FITS for remedy in remedies):
        return remedies
    pairs = sorted(_iter_pairs(trial, saving), key=_rank_by_cost)
    answered = (trial.try_answer(option) for option in pairs[:MAX_ANSWERED_PAIRS])
    fitting = islice(
        (remedy for remedy in answered if remedy is not None and remedy.verdict is Verdict.FITS),
        MAX_REMEDIES,
    )
    first_of = {
        frozenset(remedy.change): remedy
        for remedy in sorted(fitting, key=_rank_by_cost, reverse=True)
    }
    return tuple(sorted((*first_of.values(), *remedies), key=_rank_by_cost)[:MAX_REMEDIES])


def build_remedy(
    change: Mapping[str, object],
    before: tuple[Evaluator, Candidate],
    after: tuple[Evaluator, Candidate],
) -> Remedy:
    """Build the remedy of a changed question.

    It compares the result with what came nearest without the change.
    """
    times = [
        _time_config(
            evaluator, (timed_candidate.workload, timed_candidate.layout), timed_candidate.estimate
        )
        for evaluator, timed_candidate in (after, before)
    ]
    candidate = after[1]
    return Remedy(
        change=change,
        saves_bytes=max(needed_bytes(before[1].estimate) - needed_bytes(candidate.estimate), 0),
        verdict=candidate.judgement.verdict,
        slowdown=round(times[0].compute_ratio(times[1]), 3),
        num_gpus=candidate.num_gpus,
        workload=candidate.workload,
        layout=candidate.layout,
    )


def _find_best_step(trial: "_Trial", configs: Iterable[Config]) -> Remedy | None:
    """Return the first sufficient step of one kind, else the best.

    Steps that numbers do not rule out are answered.
    """
    best: Remedy | None = None
    answers = 0
    for config in _iter_runnable(configs):
        remedy = trial.try_numbers(config)
        if (
            remedy is not None
            and remedy.verdict is not Verdict.DOES_NOT_FIT
            and answers < MAX_ANSWERED_STEPS
        ):
            remedy, answers = trial.try_answer(remedy), answers + 1
        if remedy is None:
            continue
        if remedy.verdict is Verdict.FITS:
            return remedy
        if best is None or (_RANK[remedy.verdict], -remedy.saves_bytes) < (
            _RANK[best.verdict],
            -best.saves_bytes,
        ):
            best = remedy
    return best


def _iter_pairs(trial: "_Trial", saving: Mapping[RemedyStep, Remedy]) -> Iterator[Remedy]:
    """Yield pairs that numbers do not rule out.

    The most of one change, and of another as much as it takes.
    """
    tried_configs = {(remedy.workload, remedy.layout) for remedy in saving.values()}
    for first, second in combinations(REMEDY_STEPS, 2):
        if first not in saving:
            continue
        for config in _iter_runnable(second((saving[first].workload, saving[first].layout))):
            outline = None if config in tried_configs else trial.try_numbers(config)
            if outline is not None and outline.verdict is not Verdict.DOES_NOT_FIT:
                tried_configs.add(config)
                yield outline
                if outline.verdict is Verdict.FITS:
                    break


def _iter_runnable(configs: Iterable[Config]) -> Iterator[Config]:
    """Yield configurations until one contradicts itself."""
    with suppress(EstimatorError):
        yield from configs


def _select_best(trial: "_Trial", options: Iterable[Remedy], num_gpus: int) -> tuple[Remedy, ...]:
    """Return the best of some options, answered in full."""
    worthwhile = [
        option
        for option in options
        if option.num_gpus == num_gpus or option.verdict is not Verdict.DOES_NOT_FIT
    ]
    answered = [
        trial.try_answer(option) for option in sorted(worthwhile, key=_rank_by_cost)[:MAX_REMEDIES]
    ]
    useful = [
        remedy
        for remedy in answered
        if remedy and (remedy.num_gpus == num_gpus or remedy.verdict is Verdict.FITS)
    ]
    return tuple(sorted(useful, key=_rank_by_cost))


def _rank_by_cost(remedy: Remedy) -> tuple[int, float, int, int]:
    return _RANK[remedy.verdict], remedy.slowdown, remedy.num_gpus, -remedy.saves_bytes


@dataclass(slots=True, kw_only=True)
class _Trial:
    evaluator: Evaluator
    base_config: Config
    legality: Legality
    max_gpus: int | None
    needed_bytes: int = field(init=False)
    time_per_token: "_TimePerToken" = field(init=False)
    numbers: dict[Config, Remedy | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Answer the base configuration, to which all others are compared."""
        estimate = self.evaluator.answer(*self.base_config)
        self.needed_bytes, self.time_per_token = (
            needed_bytes(estimate),
            _time_config(self.evaluator, self.base_config, estimate),
        )

    def try_numbers(self, config: Config) -> Remedy | None:
        """Return a remedy by numbers alone, cached.

        None when the configuration cannot run or saves nothing.
        """
        if config not in self.numbers:
            # The time of a replica rests on its components; nothing of it is replayed.
            evaluate = (
                self.evaluator.answer
                if isinstance(config[0], ServeWorkload)
                else self.evaluator.estimate_numbers
            )
            is_within_limit = self.max_gpus is None or config[1].num_gpus <= self.max_gpus
            is_legal = is_within_limit and self.legality.find_violation(*config) is None
            self.numbers[config] = self._try_config(config, evaluate) if is_legal else None
        return self.numbers[config]

    def try_answer(self, option: Remedy) -> Remedy | None:
        """Return an option answered in full, as a question of its own."""
        return self._try_config((option.workload, option.layout), self.evaluator.answer)

    def _try_config(self, config: Config, evaluate: Evaluate) -> Remedy | None:
        try:
            estimate = evaluate(*config)
            slowdown = _time_config(self.evaluator, config, estimate).compute_ratio(
                self.time_per_token
            )
        except EstimatorError:
            return None
        saved_bytes = self.needed_bytes - needed_bytes(estimate)
        if saved_bytes <= 0:
            return None
        return Remedy(
            change=list_changes(self.base_config, config),
            saves_bytes=saved_bytes,
            verdict=judge(estimate, self.evaluator.device).verdict,
            slowdown=round(slowdown, 3),
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _TimePerToken:
    """Time of one GPU per token, estimated and by arithmetic alone.

    The estimate is None where the GPU's rates are unknown.
    """

    estimated: float | None
    arithmetic: float

    def compute_ratio(self, before: "_TimePerToken") -> float:
        """Return the ratio of two times of the same kind."""
        if self.estimated is None or before.estimated is None:
            return self.arithmetic / before.arithmetic
        return self.estimated / before.estimated


def _time_config(evaluator: Evaluator, config: Config, estimate: Estimate) -> _TimePerToken:
    workload, layout = config
    throughput = evaluator.get_throughput(workload, layout, estimate)
    if isinstance(
        workload, ServeWorkload
    ):  # a replica that serves fewer sequences at once needs that many more rounds
        arithmetic = layout.num_gpus / workload.num_sequences
    else:
        arithmetic = seconds_per_token(evaluator, workload, layout)
    return _TimePerToken(
        estimated=None if throughput is None else 1 / throughput.tokens_per_second_per_gpu,
        arithmetic=arithmetic,
    )

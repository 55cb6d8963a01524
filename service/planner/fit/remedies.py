"""What would make a configuration fit: each change is tried on the model itself."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import combinations, islice

from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import ServeWorkload, Workload
from service.planner.fit.candidates import Candidate
from service.planner.fit.changes import changes
from service.planner.fit.evaluator import Evaluate, Subject
from service.planner.fit.remedy_steps import MOVES, Config, Move
from service.planner.fit.time_lower_bound import seconds_per_token
from service.planner.fit.verdict import Verdict, judge, needed_bytes
from service.planner.legality.legal import Legality

MAX_REMEDIES = 8
MAX_ANSWERED_PAIRS = 2 * MAX_REMEDIES
"""Pairs whose allocator is replayed, some milliseconds each."""
MAX_ANSWERED_STEPS = 3
_RANK = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.DOES_NOT_FIT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change, the bytes that it saves on each GPU and what comes of it: asked by itself, it gives the same.

    ``slowdown`` is the time of one GPU per token against before: with more GPUs that of the whole job falls.
    """

    change: Mapping[str, object]
    saves_bytes: int
    verdict: Verdict
    slowdown: float
    num_gpus: int
    workload: Workload
    layout: Layout


def find_remedies(
    subject: Subject, workload: Workload, layout: Layout, estimate: Estimate, *, max_gpus: int | None = None
) -> tuple[Remedy, ...]:
    """Return changes that save memory: those that suffice first, cheapest in time first; pairs where no single one does.

    Of the steps of one kind (micro batch 4, 2, 1) the first that suffices is kept, or the one that saves most. More GPUs are
    proposed only where they suffice, and never more than ``max_gpus``. Numbers alone rule out what cannot fit; what is shown
    is answered in full.
    """
    legality = Legality(subject.architecture)
    trial = _Trial(subject=subject, asked=(workload, layout), legality=legality, max_gpus=max_gpus)
    saving = {move: found for move in MOVES if (found := _most_saving(trial, move(trial.asked)))}
    remedies = _shown(trial, saving.values(), estimate.num_gpus)
    if any(remedy.verdict is Verdict.FITS for remedy in remedies):
        return remedies
    pairs = sorted(_pairs(trial, saving), key=_by_cost)
    answered = (trial.answered(option) for option in pairs[:MAX_ANSWERED_PAIRS])
    fitting = islice((remedy for remedy in answered if remedy is not None and remedy.verdict is Verdict.FITS), MAX_REMEDIES)
    first_of = {frozenset(remedy.change): remedy for remedy in sorted(fitting, key=_by_cost, reverse=True)}
    return tuple(sorted((*first_of.values(), *remedies), key=_by_cost)[:MAX_REMEDIES])


def remedy_between(change: Mapping[str, object], before: tuple[Subject, Candidate], after: tuple[Subject, Candidate]) -> Remedy:
    """Return a change of a question as a remedy: what came of it against what came nearest without it."""
    paces = [_pace(subject, (one.workload, one.layout), one.estimate) for subject, one in (after, before)]
    found = after[1]
    return Remedy(
        change=change,
        saves_bytes=max(needed_bytes(before[1].estimate) - needed_bytes(found.estimate), 0),
        verdict=found.judgement.verdict,
        slowdown=round(paces[0].over(paces[1]), 3),
        num_gpus=found.num_gpus,
        workload=found.workload,
        layout=found.layout,
    )


def _most_saving(trial: "_Trial", configs: Iterable[Config]) -> Remedy | None:
    """Return the first step of one kind that suffices, else the best; what numbers do not rule out is answered."""
    best: Remedy | None = None
    answers = 0
    for config in _runnable(configs):
        found = trial.outlined(config)
        if found is not None and found.verdict is not Verdict.DOES_NOT_FIT and answers < MAX_ANSWERED_STEPS:
            found, answers = trial.answered(found), answers + 1
        if found is None:
            continue
        if found.verdict is Verdict.FITS:
            return found
        if best is None or (_RANK[found.verdict], -found.saves_bytes) < (_RANK[best.verdict], -best.saves_bytes):
            best = found
    return best


def _pairs(trial: "_Trial", saving: Mapping[Move, Remedy]) -> Iterator[Remedy]:
    """Yield pairs that numbers do not rule out: the most of one change, and of another as much as it takes."""
    known = {(remedy.workload, remedy.layout) for remedy in saving.values()}
    for first, second in combinations(MOVES, 2):
        if first not in saving:
            continue
        for config in _runnable(second((saving[first].workload, saving[first].layout))):
            found = None if config in known else trial.outlined(config)
            if found is not None and found.verdict is not Verdict.DOES_NOT_FIT:
                known.add(config)
                yield found
                if found.verdict is Verdict.FITS:
                    break


def _runnable(configs: Iterable[Config]) -> Iterator[Config]:
    """Yield configurations until one contradicts itself."""
    with suppress(EstimatorError):
        yield from configs


def _shown(trial: "_Trial", options: Iterable[Remedy], num_gpus: int) -> tuple[Remedy, ...]:
    """Return the best of some options with their answers."""
    worthwhile = [option for option in options if option.num_gpus == num_gpus or option.verdict is not Verdict.DOES_NOT_FIT]
    answered = [trial.answered(option) for option in sorted(worthwhile, key=_by_cost)[:MAX_REMEDIES]]
    kept = [remedy for remedy in answered if remedy and (remedy.num_gpus == num_gpus or remedy.verdict is Verdict.FITS)]
    return tuple(sorted(kept, key=_by_cost))


def _by_cost(remedy: Remedy) -> tuple[int, float, int, int]:
    return _RANK[remedy.verdict], remedy.slowdown, remedy.num_gpus, -remedy.saves_bytes


@dataclass(slots=True, kw_only=True)
class _Trial:
    subject: Subject
    asked: Config
    legality: Legality
    max_gpus: int | None
    needed_bytes: int = field(init=False)
    pace: "_Pace" = field(init=False)
    numbers: dict[Config, Remedy | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Answer what was asked: the measure of everything else."""
        estimate = self.subject.answer(*self.asked)
        self.needed_bytes, self.pace = needed_bytes(estimate), _pace(self.subject, self.asked, estimate)

    def outlined(self, config: Config) -> Remedy | None:
        """Return what the numbers alone say of a configuration, once; nothing when it cannot run or saves nothing."""
        if config not in self.numbers:
            # The time of a replica rests on its components; nothing of it is replayed.
            ask = self.subject.answer if isinstance(config[0], ServeWorkload) else self.subject.numbers
            there = self.max_gpus is None or config[1].num_gpus <= self.max_gpus
            legal = there and self.legality.check(*config) is None
            self.numbers[config] = self._tried(config, ask) if legal else None
        return self.numbers[config]

    def answered(self, option: Remedy) -> Remedy | None:
        """Return an option as a question about it alone is answered."""
        return self._tried((option.workload, option.layout), self.subject.answer)

    def _tried(self, config: Config, ask: Evaluate) -> Remedy | None:
        try:
            estimate = ask(*config)
            slowdown = _pace(self.subject, config, estimate).over(self.pace)
        except EstimatorError:
            return None
        saves = self.needed_bytes - needed_bytes(estimate)
        if saves <= 0:
            return None
        return Remedy(
            change=changes(self.asked, config),
            saves_bytes=saves,
            verdict=judge(estimate, self.subject.device).verdict,
            slowdown=round(slowdown, 3),
            num_gpus=estimate.num_gpus,
            workload=config[0],
            layout=config[1],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pace:
    """Time of one GPU per token: as answers tell it, None where nobody told the GPU's rates, and by arithmetic alone."""

    told: float | None
    arithmetic: float

    def over(self, before: "_Pace") -> float:
        """Return the ratio of both, of the same kind."""
        if self.told is None or before.told is None:
            return self.arithmetic / before.arithmetic
        return self.told / before.told


def _pace(subject: Subject, config: Config, estimate: Estimate) -> _Pace:
    workload, layout = config
    throughput = subject.throughput(workload, layout, estimate)
    if isinstance(workload, ServeWorkload):  # a replica that serves fewer sequences at once needs that many more rounds
        arithmetic = layout.num_gpus / workload.num_sequences
    else:
        arithmetic = seconds_per_token(subject, workload, layout)
    return _Pace(told=None if throughput is None else 1 / throughput.tokens_per_second_per_gpu, arithmetic=arithmetic)

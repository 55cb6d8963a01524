"""What would make a configuration fit: each change is tried on the model itself."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from service.estimator.errors import EstimatorError
from service.estimator.layout import Layout
from service.estimator.result import Estimate
from service.estimator.workload import ServeWorkload, Workload
from service.planner.changes import changes
from service.planner.moves import MOVES, Config, Move
from service.planner.pace import seconds_per_token
from service.planner.subject import Subject
from service.planner.verdict import Verdict, judge, needed_bytes

MAX_REMEDIES = 8
_RANK = {Verdict.FITS: 0, Verdict.TIGHT: 1, Verdict.DOES_NOT_FIT: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change, the bytes that it saves on each GPU and what comes of it; ``slowdown`` is time per token against before."""

    change: Mapping[str, object]
    saves_bytes: int
    verdict: Verdict
    slowdown: float
    num_gpus: int
    workload: Workload
    layout: Layout


def find_remedies(subject: Subject, workload: Workload, layout: Layout, estimate: Estimate) -> tuple[Remedy, ...]:
    """Return changes that save memory: those that suffice first, cheapest in time first; pairs where no single one does.

    Of the steps of one kind (micro batch 4, 2, 1) the first that suffices is kept, or the one that saves most. More GPUs are
    proposed only where they suffice. What is saved is told between two evaluations, neither of them replayed.
    """
    asked = (workload, layout)
    trial = _Trial(subject=subject, asked=asked, needed_bytes=needed_bytes(subject.evaluate(workload, layout)))
    singles = [found for move in MOVES if (found := _first_enough(trial, move(asked))) is not None]
    enough = any(remedy.verdict is Verdict.FITS for remedy in singles)
    tried = singles if enough else [*singles, *_pairs(trial)]
    worthwhile = [remedy for remedy in tried if remedy.num_gpus == estimate.num_gpus or remedy.verdict is Verdict.FITS]
    return tuple(sorted(worthwhile, key=_by_cost)[:MAX_REMEDIES])


def _by_cost(remedy: Remedy) -> tuple[int, float, int, int]:
    return _RANK[remedy.verdict], remedy.slowdown, remedy.num_gpus, -remedy.saves_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trial:
    subject: Subject
    asked: Config
    needed_bytes: int

    def of(self, config: Config) -> Remedy | None:
        """Return what comes of a configuration; nothing when it cannot run or saves nothing."""
        workload, layout = config
        with suppress(EstimatorError):
            estimate = self.subject.evaluate(workload, layout)
            saves = self.needed_bytes - needed_bytes(estimate)
            if saves > 0:
                return Remedy(
                    change=changes(self.asked, config),
                    saves_bytes=saves,
                    verdict=judge(estimate, self.subject.device).verdict,
                    slowdown=_slowdown(self.subject, self.asked, config),
                    num_gpus=estimate.num_gpus,
                    workload=workload,
                    layout=layout,
                )
        return None


def _first_enough(trial: _Trial, configs: Iterable[Config]) -> Remedy | None:
    best: Remedy | None = None
    for config in configs:
        found = trial.of(config)
        if found is not None and (best is None or found.saves_bytes > best.saves_bytes):
            best = found
            if found.verdict is Verdict.FITS:
                break
    return best


def _pairs(trial: _Trial) -> Iterator[Remedy]:
    for first, second in combinations(MOVES, 2):
        found = _first_enough(trial, _both(first, second, trial.asked))
        if found is not None and found.verdict is Verdict.FITS:
            yield found


def _both(first: Move, second: Move, asked: Config) -> Iterator[Config]:
    for config in first(asked):
        yield from second(config)


def _slowdown(subject: Subject, before: Config, after: Config) -> float:
    """Return the ratio of times per token; a replica that serves fewer sequences at once needs that many more rounds."""
    match before[0], after[0]:
        case (ServeWorkload() as asked, ServeWorkload() as offered):
            return asked.num_sequences / offered.num_sequences
        case (ServeWorkload(), _) | (_, ServeWorkload()):
            message = "a change never turns training into serving"
            raise AssertionError(message)
        case (asked, offered):
            slower = seconds_per_token(subject, offered, after[1]) / seconds_per_token(subject, asked, before[1])
            return round(slower, 3)

"""Single changes, pairs and triples, each estimated on the model itself."""

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

from service.planner.fit.evaluator import Config
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict
from service.planner.remedies.costs import compare_costs
from service.planner.remedies.effects import list_losses
from service.planner.remedies.steps import RemedyStep, shrinks_weights
from service.planner.remedies.trials import Trial, Trials

MAX_CHANGES = 3
MAX_FITTING_SINGLES = 8
MAX_FITTING = 4
"""Fitting sets of one number of changes that are looked for, the cheapest first."""
MAX_ANSWERS = 8
"""Configurations of one number of changes whose allocator is replayed, some 50 milliseconds each;
more only until one fits.
"""
_WORTHWHILE = 0.99
"""A change more must save a hundredth of the cost, where fewer changes fit as well."""
_ROUNDING = 0.01
_RECOMPUTING = 4 / 3
"""What a set must cost less to be added to: its forward pass once more (arXiv:2205.05198)."""
_STRONGER = 2
"""Strides of a graded step that are answered from the first on of which numbers are enough."""

Rank = tuple[bool, float, int]
Path = tuple[tuple[int, int], ...]
"""Steps by their place in the order, each with the place of the configuration that it leads to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Combination:
    """A set of changes, by the path that leads to it.

    ``stronger`` are further strides of its last step; a set that ``only_extends`` is one of them,
    to which more changes are added.
    """

    path: Path
    trial: Trial
    stronger: tuple[tuple[int, Config], ...] = ()
    only_extends: bool = False

    @property
    def steps(self) -> frozenset[int]:
        """The steps that are taken."""
        return frozenset(step for step, _ in self.path)


@dataclass(slots=True, kw_only=True)
class CombinationSearch:
    """Search over the sets of changes, those of fewer changes first.

    A set that fits is not added to, nor is one of which no less is lost than of a set that fits on
    the same GPUs.
    """

    trials: Trials
    steps: Sequence[tuple[RemedyStep, bool]]
    max_changes: int = MAX_CHANGES
    num_changes: int = 0
    fitting: dict[frozenset[int], Remedy] = field(default_factory=dict)
    singles: list[Combination] = field(default_factory=list)
    nearest: Trial | None = None
    nearest_here: Combination | None = None
    """Set on the question's number of GPUs that lacks least."""
    num_gpus: int = 1
    _seen: set[Config] = field(default_factory=set)

    def run(self) -> None:
        """Try sets of one change, of two, of three."""
        base: list[Combination | None] = [None]
        self.num_gpus = self.trials.base[1].num_gpus
        self._seen.add(self.trials.base)
        for number in range(1, self.max_changes + 1):
            tried = [child for combination in base for child in self._expand(combination)]
            if not tried:
                return
            self.num_changes = number
            if number == 1:
                self.singles = tried
            self._answer_best(tried, is_first=number == 1)
            tried.sort(key=lambda combination: combination.trial.missing_bytes)
            self._note_nearest(tried)
            if self._is_enough():
                return
            base = [combination for combination in tried if self._is_worth_more(combination)]

    def _expand(self, combination: Combination | None) -> Iterator[Combination]:
        """Yield the sets with one change more than a set.

        Where weights alone have no room, only what makes them smaller is added.
        """
        path = () if combination is None else combination.path
        config = self.trials.base if combination is None else combination.trial.config
        usable = self.trials.evaluator.device.usable_bytes
        is_open = combination is None or combination.trial.has_room_for_weights(usable)
        for place in range(path[-1][0] + 1 if path else 0, len(self.steps)):
            step, is_graded = self.steps[place]
            if not is_open and not shrinks_weights(step):
                continue
            options = [
                option
                for option in enumerate(self.trials.list_legal(step(config)))
                if option[1] not in self._seen
            ]
            # Of the alternatives of a step that is no single change, as much as it takes.
            is_graded = is_graded or bool(path)
            chosen = self._grade(options) if is_graded else [(option, ()) for option in options]
            for at, ((index, option), stronger) in enumerate(chosen):
                self._seen.add(option)
                trial = self.trials.try_numbers(option, prunes=bool(path))
                if trial is not None:
                    yield Combination(
                        path=(*path, (place, index)),
                        trial=trial,
                        stronger=tuple(stronger),
                        only_extends=is_graded and at > 0,
                    )

    def _grade(
        self, options: list[tuple[int, Config]]
    ) -> list[tuple[tuple[int, Config], Sequence[tuple[int, Config]]]]:
        """Return the mildest stride that may suffice, and the strongest."""
        if not options:
            return []
        strongest = self.trials.try_numbers(options[-1][1])
        if strongest is None or not strongest.is_possible:
            return [(options[-1], ())]
        strides = range(len(options) - 1)
        sure = bisect_left(strides, x=True, key=lambda at: self._suffices(options[at][1]))
        place = bisect_left(strides[:sure], x=True, key=lambda at: self._may_do(options[at][1]))
        stronger = {*range(place + 1, sure), *range(sure, sure + _STRONGER)} - {place}
        mildest = (options[place], [options[at] for at in sorted(stronger) if at < len(options)])
        return [mildest] if place == len(options) - 1 else [mildest, (options[-1], ())]

    def _may_do(self, config: Config) -> bool:
        trial = self.trials.try_numbers(config)
        return trial is not None and trial.is_possible

    def _suffices(self, config: Config) -> bool:
        trial = self.trials.try_numbers(config)
        return trial is not None and trial.is_possible and not trial.missing_bytes

    def _answer_best(self, tried: Iterable[Combination], *, is_first: bool) -> None:
        """Answer what may fit in full, the cheapest first, each set once."""
        possible = [
            (self._rank(combination), combination)
            for combination in tried
            if combination.trial.is_possible and not combination.only_extends
        ]
        possible.sort(key=lambda ranked: ranked[0])
        keeping = [pair for pair in possible if not self._list_losses(pair[1].trial.config)]
        self._answer_until(keeping, 1)
        self._answer_until(possible, MAX_FITTING_SINGLES if is_first else MAX_FITTING)

    def _answer_until(self, possible: Iterable[tuple[Rank, Combination]], limit: int) -> None:
        num_fitting = num_answers = 0
        for (_, cost, _), combination in possible:
            if num_fitting >= limit or (num_fitting and num_answers >= MAX_ANSWERS):
                return
            if combination.steps in self.fitting:
                num_fitting += 1
                continue
            if self._is_needless(combination.steps, cost):
                continue
            remedy = self._answer(combination)
            num_answers += 1
            if remedy is not None:
                self.fitting[combination.steps] = remedy
                num_fitting += 1

    def _answer(self, combination: Combination) -> Remedy | None:
        """Return the remedy of a set that fits.

        Its last step is taken as far as is needed.
        """
        *_, (place, _index) = combination.path
        for index, config in (
            (combination.path[-1][1], combination.trial.config),
            *combination.stronger,
        ):
            remedy = self.trials.answer(config)
            if remedy is not None and remedy.verdict is Verdict.FITS:
                return self._relax((*combination.path[:-1], (place, index)), remedy)
        return None

    def _relax(self, path: Path, remedy: Remedy) -> Remedy:
        """Take the earlier steps of a set back as far as possible."""
        for position, (place, index) in enumerate(path[:-1]):
            if not index:
                continue
            at = bisect_left(
                range(index), x=True, key=lambda i: self._suffices_at(path, position, i)
            )
            config = self._rebuild(path, position, at) if at < index else None
            milder = None if config is None else self.trials.answer(config)
            if milder is not None and milder.verdict is Verdict.FITS:
                path = (*path[:position], (place, at), *path[position + 1 :])
                remedy = milder
        return remedy

    def _suffices_at(self, path: Path, position: int, index: int) -> bool:
        config = self._rebuild(path, position, index)
        return config is not None and self._suffices(config)

    def _rebuild(self, path: Path, position: int, index: int) -> Config | None:
        """Return the configuration of a path with another stride at a position."""
        return self.rebuild((*path[:position], (path[position][0], index), *path[position + 1 :]))

    def rebuild(self, path: Path) -> Config | None:
        """Return the configuration that a path leads to.

        None where a stride is gone.
        """
        config = self.trials.base
        for step, stride in path:
            options = self.trials.list_legal(self.steps[step][0](config))
            if stride >= len(options):
                return None
            config = options[stride]
        return config

    def _rank(self, combination: Combination) -> Rank:
        trial = combination.trial
        cost = compare_costs(self.trials.time(trial), self.trials.base_time).cost_ratio
        return trial.missing_bytes > 0, inf if cost is None else cost, trial.config[1].num_gpus

    def _note_nearest(self, tried: Sequence[Combination]) -> None:
        """Remember what lacks least; the sets are sorted by it."""
        if tried and (
            self.nearest is None or tried[0].trial.missing_bytes < self.nearest.missing_bytes
        ):
            self.nearest = tried[0].trial
        local = next((c for c in tried if c.trial.config[1].num_gpus == self.num_gpus), None)
        nearest = self.nearest_here
        if local is not None and (
            nearest is None or local.trial.missing_bytes < nearest.trial.missing_bytes
        ):
            self.nearest_here = local

    def _is_worth_more(self, combination: Combination) -> bool:
        """Return whether more changes may be added to a set.

        A set on the same GPUs that fits must not ask less of the result, nor cost less than this
        one would with more changes.
        """
        config = combination.trial.config
        if combination.steps in self.fitting or config[1].num_gpus > self.num_gpus:
            return False
        losses = self._list_losses(config)
        better = [remedy for remedy in self.iter_here() if self._list_kept_losses(remedy) <= losses]
        if not better:
            return True
        _, cost, _ = self._rank(combination)
        return cost * _RECOMPUTING < min(_get_cost(remedy) for remedy in better)

    def _is_enough(self) -> bool:
        """Return whether the same result on the same GPUs costs little."""
        return any(
            not self._list_kept_losses(remedy) and _get_cost(remedy) < _RECOMPUTING + _ROUNDING
            for remedy in self.iter_here()
        )

    def iter_here(self) -> Iterator[Remedy]:
        """Yield what fits on the question's number of GPUs."""
        return (remedy for remedy in self.fitting.values() if remedy.num_gpus == self.num_gpus)

    def _list_kept_losses(self, remedy: Remedy) -> frozenset[str]:
        return self._list_losses((remedy.workload, remedy.layout))

    def _list_losses(self, config: Config) -> frozenset[str]:
        return list_losses(self.trials.evaluator.architecture, self.trials.base, config)

    def _is_needless(self, steps: frozenset[int], cost: float) -> bool:
        """Return whether fewer of its changes fit and cost hardly more."""
        return any(
            fewer < steps and _get_cost(other) * _WORTHWHILE <= cost
            for fewer, other in self.fitting.items()
        )


def _get_cost(remedy: Remedy) -> float:
    cost = remedy.cost.cost_ratio
    return inf if cost is None else cost

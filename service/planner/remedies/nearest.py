"""Changes beyond the nearest set, where no small set fits.

Of each further change the one that helps most is taken, in any order of the steps; those that turn
out to be needless are taken back.
"""

from collections.abc import Iterator

from service.planner.fit.evaluator import Config
from service.planner.fit.remedy import Remedy
from service.planner.fit.verdict import Verdict
from service.planner.remedies.combinations import CombinationSearch, Path
from service.planner.remedies.trials import Trial

MAX_CHANGES = 8
"""Changes that are taken together."""
_MAX_ESTIMATES = 60
"""Estimates beyond those of small sets."""
_Set = tuple[Path, Trial]


def extend_nearest(search: CombinationSearch) -> None:
    """Add changes to the nearest set on the same GPUs.

    The first that fits is recorded.
    """
    nearest = search.nearest_here
    if nearest is None or any(search.iter_here()):
        return
    search.trials.allow(_MAX_ESTIMATES)
    path, trial = nearest.path, nearest.trial
    while len(path) < MAX_CHANGES:
        longer = sorted(_iter_longer(search, path, trial), key=lambda pair: pair[1].missing_bytes)
        for longer_path, longer_trial in longer:
            remedy = _answer(search, longer_trial.config)
            if remedy is not None:
                _record(search, longer_path, remedy)
                return
        if not longer or longer[0][1].missing_bytes >= trial.missing_bytes:
            return
        path, trial = longer[0]


def _iter_longer(search: CombinationSearch, path: Path, trial: Trial) -> Iterator[_Set]:
    """Yield the set with each other step.

    It is taken as far as it goes on the same GPUs.
    """
    steps = {step for step, _ in path}
    for place, (step, _) in enumerate(search.steps):
        options = [] if place in steps else search.trials.list_legal(step(trial.config))
        local = [
            (index, option)
            for index, option in enumerate(options)
            if option[1].num_gpus == search.num_gpus
        ]
        for index, option in local[-1:]:
            longer = search.trials.try_numbers(option)
            if longer is not None:
                yield (*path, (place, index)), longer


def _answer(search: CombinationSearch, config: Config) -> Remedy | None:
    """Return the remedy of a configuration, None where it does not fit."""
    trial = search.trials.try_numbers(config)
    if trial is None or not trial.is_possible:
        return None
    remedy = search.trials.answer(config)
    return remedy if remedy is not None and remedy.verdict is Verdict.FITS else None


def _record(search: CombinationSearch, path: Path, remedy: Remedy) -> None:
    """Record a remedy without the changes that it does not need."""
    for change in path:
        shorter = tuple(other for other in path if other != change)
        config = search.rebuild(shorter)
        fewer = None if config is None else _answer(search, config)
        if fewer is not None:
            path, remedy = shorter, fewer
    search.fitting[frozenset(step for step, _ in path)] = remedy
    search.num_changes = max(search.num_changes, len(path))

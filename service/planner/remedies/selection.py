"""Selection of the remedies that are shown, and the search's conclusion."""

from collections.abc import Sequence

from service.estimator.values.units import format_bytes
from service.planner.fit.changes import list_changes
from service.planner.fit.remedy import Remedy, RemedySearch
from service.planner.fit.verdict import Verdict
from service.planner.remedies.combinations import Combination, CombinationSearch
from service.planner.remedies.effects import list_losses
from service.planner.remedies.trials import Trials, rank_by_cost

MAX_REMEDIES = 10
MAX_HELPING = 2
"""Single changes that are shown beside what fits."""


def select_remedies(
    trials: Trials, fitting: Sequence[Remedy], helping: Sequence[Remedy]
) -> tuple[Remedy, ...]:
    """Return the best of some remedies, the cheapest that fit first.

    The cheapest on the same GPUs, the cheapest that leaves the result as it is, the cheapest on
    more of its GPUs, and the cheapest on any others are always among them; the others are those of
    the fewest changes, by which ``fitting`` is ordered.
    """
    distinct = {(remedy.gpu, remedy.workload, remedy.layout): remedy for remedy in fitting}
    ordered = sorted(distinct.values(), key=rank_by_cost)
    same_gpus = [remedy for remedy in ordered if has_same_gpus(trials, remedy)]
    keeping = [remedy for remedy in ordered if _keeps_result(trials, remedy)]
    elsewhere = [remedy for remedy in ordered if not has_same_gpus(trials, remedy)]
    more = [remedy for remedy in elsewhere if remedy.gpu == trials.evaluator.device.name]
    promised = [*same_gpus[:1], *keeping[:1], *elsewhere[:1], *more[:1]]
    selected: list[Remedy] = []
    for remedy in (*promised, *distinct.values()):
        is_shown = any(remedy is other for other in selected)
        if len(selected) < MAX_REMEDIES - len(helping) and not is_shown:
            selected.append(remedy)
    return tuple(sorted((*selected, *helping), key=rank_by_cost))


def list_helping(trials: Trials, search: CombinationSearch, number: int) -> list[Remedy]:
    """Return single changes on the same GPUs that save bytes.

    Each is the best of its step. Those that leave the result as it is come first.
    """
    num_gpus = trials.base[1].num_gpus
    best: dict[frozenset[int], Remedy] = {}
    singles = [
        single
        for single in search.singles
        if single.trial.config[1].num_gpus == num_gpus and single.steps not in search.fitting
    ]
    for single in sorted(singles, key=lambda single: _rank_helping(trials, single)):
        if len(best) == number:
            break
        remedy = None if single.steps in best else trials.answer(single.trial.config)
        if remedy is not None and remedy.verdict is not Verdict.FITS:
            best[single.steps] = remedy
    return list(best.values())


def _rank_helping(trials: Trials, single: Combination) -> tuple[bool, int]:
    losses = list_losses(trials.evaluator.architecture, trials.base, single.trial.config)
    return bool(losses), single.trial.missing_bytes


def has_same_gpus(trials: Trials, remedy: Remedy) -> bool:
    """Return whether a remedy stays on the GPUs of the question."""
    device, (_, layout) = trials.evaluator.device, trials.base
    return remedy.gpu == device.name and remedy.num_gpus == layout.num_gpus


def summarize_search(
    trials: Trials, search: CombinationSearch, remedies: Sequence[Remedy], elsewhere: str
) -> RemedySearch:
    """Return how far the search went, and what it came to.

    ``elsewhere`` says which other GPUs were looked at.
    """
    fitting = sum(remedy.verdict is Verdict.FITS for remedy in remedies)
    changes = (
        "single changes"
        if search.num_changes == 1
        else f"sets of up to {search.num_changes} changes"
    )
    effort = f"{trials.num_estimates:,} configurations were estimated: {changes}{elsewhere}"
    if fitting:
        conclusion = f"{fitting} of these fit{'s' if fitting == 1 else ''}; {effort}"
    else:
        conclusion = f"nothing known makes it fit; {effort}{_describe_nearest(trials, search)}"
    if not trials.is_complete:
        conclusion += (
            f"; the limit of {trials.max_estimates:,} estimates ended the search, so that sets "
            "were left out"
        )
    return RemedySearch(
        num_estimates=trials.num_estimates,
        max_estimates=trials.max_estimates,
        num_changes=search.num_changes,
        is_complete=trials.is_complete,
        conclusion=conclusion,
    )


def _describe_nearest(trials: Trials, search: CombinationSearch) -> str:
    nearest = search.nearest
    if nearest is None:
        return ""
    changes = list_changes(trials.base, nearest.config)
    names = ", ".join(
        f"{name} {value}" for name, value in changes.items() if isinstance(value, str | int)
    )
    return (
        f"; the nearest of them ({names}) lacks {format_bytes(nearest.missing_bytes)} per GPU at "
        "the upper end of its interval"
    )


def _keeps_result(trials: Trials, remedy: Remedy) -> bool:
    changed = (remedy.workload, remedy.layout)
    return not list_losses(trials.evaluator.architecture, trials.base, changed)

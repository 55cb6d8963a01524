"""Remedies of a question that does not fit.

Each is tried on the model itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport
from service.planner.fit.remedy import Remedy, RemedySearch
from service.planner.fit.verdict import Verdict
from service.planner.remedies.combinations import CombinationSearch
from service.planner.remedies.costs import Prices
from service.planner.remedies.nearest import extend_nearest
from service.planner.remedies.other_gpus import (
    MAX_SEARCHED_GPUS,
    OtherGpus,
    find_larger_batch,
    find_larger_gpus,
    find_planned,
    list_larger_gpus,
    list_no_other_gpus,
)
from service.planner.remedies.selection import (
    MAX_HELPING,
    MAX_REMEDIES,
    list_helping,
    select_remedies,
    summarize_search,
)
from service.planner.remedies.steps import list_steps
from service.planner.remedies.trials import Trials

_PLANNED_KINDS = 2
"""Larger kinds of GPU that the planner tries where nothing else fits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Other GPUs in place of a question's, and prices."""

    other_gpus: OtherGpus = list_no_other_gpus
    prices: Prices = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedies:
    """Remedies, and how far they were looked for."""

    remedies: tuple[Remedy, ...]
    search: RemedySearch


NO_MARKET = Market()


def add_remedies(
    report: FitReport,
    evaluator: Evaluator,
    workload: Workload,
    layout: Layout,
    market: Market = NO_MARKET,
) -> FitReport:
    """Add remedies to a report that does not fit.

    They are dozens of questions, which take up to three seconds the first time.
    """
    if report.verdict is Verdict.FITS:
        return report
    remedies = find_remedies(evaluator, workload, layout, market)
    return replace(report, remedies=remedies.remedies, remedy_search=remedies.search)


def find_changes(
    evaluator: Evaluator,
    workload: Workload,
    layout: Layout,
    *,
    max_gpus: int | None = None,
    max_estimates: int | None = None,
) -> tuple[Remedy, ...]:
    """Return sets of changes on GPUs of the same kind.

    Those that suffice come first, the cheapest of them first; then single ones that save bytes.
    More GPUs are proposed only where they suffice, and never more than ``max_gpus``.
    """
    trials = Trials(evaluator, (workload, layout), max_gpus=max_gpus, max_estimates=max_estimates)
    search = _search_combinations(trials)
    return _select(trials, search, list(search.fitting.values()))


def find_remedies(
    evaluator: Evaluator, workload: Workload, layout: Layout, market: Market = NO_MARKET
) -> Remedies:
    """Return what would make a question fit, cheapest first.

    Beside sets of changes they are larger kinds of GPU, and more GPUs as the planner lays them out.
    Where nothing fits the search says so, and what lacks least.
    """
    trials = Trials(evaluator, (workload, layout), prices=market.prices)
    search = _search_combinations(trials)
    larger = list_larger_gpus(evaluator.device, market.other_gpus)
    fitting = [*search.fitting.values(), *find_larger_gpus(trials, larger)]
    fitting += _plan_layouts(trials, search, larger if not fitting else [])
    elsewhere = f", up to {MAX_SEARCHED_GPUS:,} GPUs of its kind"
    elsewhere += f" and {len(larger)} larger kinds" if larger else ""
    remedies = _select(trials, search, fitting)
    return Remedies(remedies=remedies, search=summarize_search(trials, search, remedies, elsewhere))


def _select(
    trials: Trials, search: CombinationSearch, fitting: Sequence[Remedy]
) -> tuple[Remedy, ...]:
    number = MAX_HELPING if fitting else MAX_REMEDIES
    return select_remedies(trials, fitting, list_helping(trials, search, number))


def _plan_layouts(
    trials: Trials, search: CombinationSearch, larger: Sequence[Evaluator]
) -> list[Remedy]:
    """Return the planner's layouts on GPUs of the same kind.

    Where nothing fits they are on the largest kinds.
    """
    evaluator = trials.evaluator
    planned = find_planned(trials, evaluator) or find_larger_batch(trials, evaluator)
    if planned is not None or search.fitting:
        return [] if planned is None else [planned]
    for other in reversed(larger[-_PLANNED_KINDS:]):
        planned = find_planned(trials, other) or find_larger_batch(trials, other)
        if planned is not None:
            return [planned]
    return []


def _search_combinations(trials: Trials) -> CombinationSearch:
    """Search over sets of changes.

    Where none fits on the same GPUs shorter sequences are tried as well.
    """
    model, num_gpus = trials.evaluator.architecture, trials.base[1].num_gpus
    search = CombinationSearch(trials=trials, steps=list_steps(model))
    search.run()
    extend_nearest(search)
    if all(remedy.num_gpus > num_gpus for remedy in search.fitting.values()):
        cutting = CombinationSearch(trials=trials, steps=list_steps(model, last_resort=True))
        cutting.run()
        return cutting
    return search

"""Plans on a cluster as it stands: the best that runs there today, else the best that would if others left."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.base.errors import InvalidRequestError
from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import ServeWorkload
from service.planner.cluster.assignments import Never, NotToday, Placement
from service.planner.cluster.offers import DeviceOf, PriceOf, offers_if_empty, offers_today, place_candidate
from service.planner.cluster.supply import Supply
from service.planner.plans.offered import Offered
from service.planner.search.offer import Offer
from service.usecases.questions.plans import PlanQuestion, PlanReport

Answer = Callable[[PlanQuestion], PlanReport]
Found = Placement | NotToday | Never


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedReport:
    """A report, and of each of its candidates where it runs, or why not; those that run today come first."""

    report: PlanReport
    placements: tuple[Found, ...]


def place_plans(asked: PlanQuestion, supply: Supply, answer: Answer, *, device_of: DeviceOf, price_of: PriceOf) -> PlacedReport:
    """Answer a question on a cluster; its own offers do not count.

    What is free is searched first. A kind of GPU on which the best plan finds no nodes is left out and the rest asked again;
    when none is left, the empty cluster is searched, and who is on it is told.
    """
    together = not isinstance(asked.question.workload, ServeWorkload)
    today = offers_today(supply, device_of, price_of, together=together)
    found = _placed_today(supply, replace(asked, offers=today), answer)
    if found is not None:
        return found
    empty = offers_if_empty(supply, device_of, price_of)
    if not empty:
        message = "the cluster has no whole GPU"
        raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])
    return _placed(supply, answer(replace(asked, offers=empty)))


def _placed_today(supply: Supply, asked: PlanQuestion, answer: Answer) -> PlacedReport | None:
    left = asked
    elsewhere: list[Offered] = []
    while left.offers:
        try:
            found = _placed(supply, answer(left))
        except EstimatorError:
            return None  # so few GPUs are free that nothing can be tried; the empty cluster says what is wrong, if anything is
        if any(isinstance(one, Placement) for one in found.placements):
            return replace(found, report=_with_all(asked.offers, found.report, elsewhere))
        best = found.report.plans.best
        if best is None:
            return None
        elsewhere.append(_left_out(best, found.placements))
        left = replace(left, offers=tuple(offer for offer in left.offers if offer != best.offer))
    return None


def _left_out(best: Offered, placements: Sequence[Found]) -> Offered:
    """Return a kind of GPU without a plan: the GPUs of its best one are free, but nowhere as it needs them."""
    why = next(one.reason for one in placements if not isinstance(one, Placement))
    reason = f"its best plan takes {best.plan.num_gpus}, which do not run there today: {why}"
    return replace(best, plan=replace(best.plan, num_gpus=None, candidates=(), unfilled=(), reason=reason))


def _with_all(offers: Sequence[Offer], report: PlanReport, elsewhere: Sequence[Offered]) -> PlanReport:
    """Return a report with the kinds of GPUs that were left out on the way, in the order in which all were offered."""
    offered = sorted((*report.plans.offered, *elsewhere), key=lambda one: offers.index(one.offer))
    return replace(report, plans=replace(report.plans, offered=tuple(offered)))


def _placed(supply: Supply, report: PlanReport) -> PlacedReport:
    best = report.plans.best
    if best is None:
        return PlacedReport(report=report, placements=())
    pairs = [
        (place_candidate(supply, best.offer, one.workload, one.layout, fit.estimate), (one, fit)) for one, fit in report.fits
    ]
    pairs.sort(key=lambda pair: not isinstance(pair[0], Placement))
    return PlacedReport(
        report=replace(report, fits=tuple(fit for _, fit in pairs)), placements=tuple(found for found, _ in pairs)
    )

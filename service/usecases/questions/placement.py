"""Plans placed on a cluster as it stands.

The best plan that runs there today, else the best that would if others released their GPUs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from service.base.errors import InvalidRequestError
from service.estimator.values.errors import EstimatorError
from service.estimator.values.workload import ServeWorkload
from service.planner.cluster.assignments import Blocked, Impossible, Placement
from service.planner.cluster.offers import (
    DeviceLookup,
    PriceLookup,
    list_current_offers,
    list_empty_offers,
    place_candidate,
)
from service.planner.cluster.supply import Supply
from service.planner.plans.offered import OfferPlan
from service.planner.search.offer import Offer
from service.usecases.questions.plans import PlanQuestion, PlanReport

Answer = Callable[[PlanQuestion], PlanReport]
PlacementResult = Placement | Blocked | Impossible


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacedReport:
    """A report with the placement of each candidate.

    A candidate that is not placed has the reason why not. Those that run today come first.
    """

    report: PlanReport
    placements: tuple[PlacementResult, ...]


def place_plans(
    request: PlanQuestion,
    supply: Supply,
    answer: Answer,
    *,
    device_of: DeviceLookup,
    price_of: PriceLookup,
) -> PlacedReport:
    """Answer a question on a cluster; its own offers do not count.

    Free GPUs are searched first. A kind of GPU on which the best plan finds no nodes is left out
    and the search repeated on the rest; when none is left, the empty cluster is searched, and the
    report says who is on it.
    """
    together = not isinstance(request.question.workload, ServeWorkload)
    today = list_current_offers(supply, device_of, price_of, together=together)
    placed = _place_today(supply, replace(request, offers=today), answer)
    if placed is not None:
        return placed
    empty = list_empty_offers(supply, device_of, price_of)
    if not empty:
        unknown = dict.fromkeys(
            pool.gpu for pool in supply.inventory.pools if pool.gpu_memory_bytes == 0
        )
        message = (
            f"nobody knows the memory of the cluster's {', '.join(unknown)}: say which GPU it is, "
            "or its gpu_memory_bytes"
            if unknown
            else "the cluster has no whole GPU"
        )
        raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])
    return _place_candidates(supply, answer(replace(request, offers=empty)))


def _place_today(supply: Supply, request: PlanQuestion, answer: Answer) -> PlacedReport | None:
    remaining = request
    unplaceable: list[OfferPlan] = []
    while remaining.offers:
        try:
            placed = _place_candidates(supply, answer(remaining))
        except EstimatorError:
            # so few GPUs are free that nothing can be tried; the empty cluster says what is wrong,
            # if anything is
            return None
        if any(isinstance(placement, Placement) for placement in placed.placements):
            return replace(
                placed, report=_restore_offers(request.offers, placed.report, unplaceable)
            )
        best = placed.report.plans.best
        if best is None:
            return None
        unplaceable.append(_mark_unplaceable(best, placed.placements))
        remaining = replace(
            remaining, offers=tuple(offer for offer in remaining.offers if offer != best.offer)
        )
    return None


def _mark_unplaceable(best: OfferPlan, placements: Sequence[PlacementResult]) -> OfferPlan:
    """Return an offer whose best plan finds no nodes.

    Enough GPUs of that kind are free, but not where the plan needs them. The offer has no plan, and
    the reason.
    """
    reason_there = next(
        placement.reason for placement in placements if not isinstance(placement, Placement)
    )
    reason = (
        f"its best plan takes {best.plan.num_gpus}, which do not run there today: {reason_there}"
    )
    return replace(
        best,
        plan=replace(best.plan, num_gpus=None, candidates=(), no_layout_reasons=(), reason=reason),
    )


def _restore_offers(
    offers: Sequence[Offer], report: PlanReport, unplaceable: Sequence[OfferPlan]
) -> PlanReport:
    """Return a report with the left-out offers put back.

    Offers are in the order of the request.
    """
    offered = sorted(
        (*report.plans.offer_plans, *unplaceable), key=lambda entry: offers.index(entry.offer)
    )
    return replace(report, plans=replace(report.plans, offer_plans=tuple(offered)))


def _place_candidates(supply: Supply, report: PlanReport) -> PlacedReport:
    best = report.plans.best
    if best is None:
        return PlacedReport(report=report, placements=())
    pairs = [
        (
            place_candidate(supply, best.offer, candidate.workload, candidate.layout, fit.estimate),
            (candidate, fit),
        )
        for candidate, fit in report.fits
    ]
    pairs.sort(key=lambda pair: not isinstance(pair[0], Placement))
    return PlacedReport(
        report=replace(report, fits=tuple(fit for _, fit in pairs)),
        placements=tuple(placement for placement, _ in pairs),
    )

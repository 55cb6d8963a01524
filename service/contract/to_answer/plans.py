"""Plan reports of the planner as answers of the contract."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from service.contract.schemas.how_many import RejectedAnswer, SearchedAnswer
from service.contract.schemas.plans import (
    AlternativeAnswer,
    ParetoAnswer,
    PlanAnswer,
    PlanCandidate,
)
from service.contract.to_answer.fits import build_fit_answer, build_remedy_answer, require_exact
from service.contract.to_answer.how_many import (
    build_beyond_answer,
    build_rejected_answer,
    build_rejected_answers,
)
from service.contract.to_answer.placements import build_placement_answer
from service.contract.to_answer.renderings import render_requests
from service.contract.to_answer.requests import render_gpu, render_layout, render_workload
from service.contract.to_question.plans import PriceBook
from service.planner.cluster.placement import Placement
from service.planner.fit.candidates import Candidate
from service.planner.fit.fit import FitReport
from service.planner.plans.offered import OfferPlan, Plans
from service.planner.plans.pareto import ParetoPoint
from service.usecases.questions.placement import PlacementResult
from service.usecases.questions.plans import PlanQuestion, PlanReport


def build_plan_answer(
    report: PlanReport,
    question: PlanQuestion,
    prices: PriceBook,
    *,
    elapsed_s: float,
    placements: Sequence[PlacementResult] = (),
    warnings: Sequence[str] = (),
) -> PlanAnswer:
    """Return a report as the contract's answer.

    On a cluster each candidate has its placement, and ``warnings`` are about the cluster.
    """
    best = report.plans.best
    nearest = report.plans.nearest if best is None else None
    pairs = zip_longest(report.fits, placements)
    candidates = (
        []
        if best is None
        else [
            _build_candidate(report.plans, best, fitted, question, prices, place)
            for fitted, place in pairs
        ]
    )
    return PlanAnswer(
        model=question.model,
        num_gpus=None if best is None else best.plan.num_gpus,
        gpu=None if best is None else render_gpu(best.offer.device),
        objective=question.objective.value,
        confidence=question.question.limits.confidence,
        candidates=candidates,
        alternatives=[_build_alternative(offered) for offered in report.plans.offer_plans],
        rejected=list(_iter_rejected(report)),
        pareto=None if report.front is None else [_build_point(point) for point in report.front],
        searched=_sum_searched(report, elapsed_s),
        reason=_explain_wait(placements) if nearest is None else nearest.plan.reason,
        beyond=None if nearest is None else build_beyond_answer(nearest.plan),
        closest=None
        if nearest is None or nearest.plan.closest is None
        else build_rejected_answer(nearest.offer.device, nearest.plan.closest),
        smallest_change=None
        if nearest is None or nearest.plan.smallest_change is None
        else build_remedy_answer(nearest.plan.smallest_change),
        assumptions=list(question.assumptions),
        warnings=list(warnings),
    )


def _explain_wait(placements: Sequence[PlacementResult]) -> str | None:
    """Return why the best plan does not run today.

    The placements that do run come first.
    """
    return None if not placements or isinstance(placements[0], Placement) else placements[0].reason


def _build_candidate(
    plans: Plans,
    offered: OfferPlan,
    fitted: tuple[Candidate, FitReport],
    question: PlanQuestion,
    prices: PriceBook,
    place: PlacementResult | None,
) -> PlanCandidate:
    candidate, fit = fitted
    throughput = fit.throughput
    return PlanCandidate(
        num_gpus=candidate.num_gpus,
        gpu=render_gpu(offered.offer.device),
        layout=render_layout(candidate.layout),
        workload=render_workload(candidate.workload),
        fit=build_fit_answer(fit, assumptions=question.assumptions, cluster=question.cluster),
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        cost_per_hour=offered.offer.cost_per_hour(candidate.num_gpus),
        cost_of_run=offered.compute_run_cost(candidate),
        price_source=prices.get_source(offered.offer),
        placement=None if place is None else build_placement_answer(place),
        requests=render_requests(
            question,
            candidate,
            offered.offer.device,
            placement=place if isinstance(place, Placement) else None,
            offers=plans.offer_plans if place is None else (),
        ),
    )


def _build_alternative(offered: OfferPlan) -> AlternativeAnswer:
    best = offered.plan.candidates[0] if offered.plan.candidates else None
    throughput = None if best is None else best.throughput
    return AlternativeAnswer(
        gpu=render_gpu(offered.offer.device),
        pool=offered.offer.pool,
        num_gpus=offered.plan.num_gpus,
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        cost_per_hour=offered.cost_per_hour,
        cost_of_run=None if best is None else offered.compute_run_cost(best),
        device_bytes=None if best is None else best.estimate.device_bytes,
        reason=offered.plan.reason,
    )


def _iter_rejected(report: PlanReport) -> Iterator[RejectedAnswer]:
    for offered in report.plans.offer_plans:
        yield from build_rejected_answers(offered.offer.device, offered.plan)


def _build_point(point: ParetoPoint) -> ParetoAnswer:
    candidate, throughput = point.candidate, point.candidate.throughput
    require_exact(candidate.estimate)
    return ParetoAnswer(
        num_gpus=candidate.num_gpus,
        gpu=render_gpu(point.offer.device),
        device_bytes=candidate.estimate.device_bytes,
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        cost_per_hour=point.offer.cost_per_hour(candidate.num_gpus),
        layout=render_layout(candidate.layout),
        workload=render_workload(candidate.workload),
    )


def _sum_searched(report: PlanReport, elapsed_s: float) -> SearchedAnswer:
    searched = [offered.plan.searched for offered in report.plans.offer_plans]
    reasons = sorted({reason for search in searched for reason in search.pruned})
    return SearchedAnswer(
        layouts=sum(search.layouts for search in searched),
        estimated=sum(search.estimated for search in searched),
        pruned={
            reason: sum(search.pruned.get(reason, 0) for search in searched) for reason in reasons
        },
        elapsed_ms=round(elapsed_s * 1000, 3),
    )

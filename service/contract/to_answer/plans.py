"""From the planner's report on several kinds of GPUs to the answer of the contract."""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from service.contract.schemas.how_many import RejectedAnswer, SearchedAnswer
from service.contract.schemas.plans import AlternativeAnswer, ParetoAnswer, PlanAnswer, PlanCandidate
from service.contract.to_answer.fits import fit_answer, remedy_answer, require_exact
from service.contract.to_answer.how_many import rejected_answer, rejected_answers
from service.contract.to_answer.placements import placement_answer
from service.contract.to_answer.renderings import requests_of
from service.contract.to_answer.requests import gpu_words, layout_words, workload_words
from service.contract.to_question.plans import PriceBook
from service.planner.cluster.placement import Placement
from service.planner.fit.candidates import Candidate
from service.planner.fit.fit import FitReport
from service.planner.plans.offered import Offered
from service.planner.plans.pareto import Point
from service.usecases.questions.placement import Found
from service.usecases.questions.plans import PlanQuestion, PlanReport


def plan_answer(
    report: PlanReport, asked: PlanQuestion, prices: PriceBook, *, elapsed_s: float, placements: Sequence[Found] = ()
) -> PlanAnswer:
    """Return a report in the words of the contract; on a cluster with the placement of each of its candidates."""
    best = report.plans.best
    nearest = report.plans.nearest if best is None else None
    found = zip_longest(report.fits, placements)
    candidates = [] if best is None else [_candidate(best, one, asked, prices, place) for one, place in found]
    return PlanAnswer(
        num_gpus=None if best is None else best.plan.num_gpus,
        gpu=None if best is None else gpu_words(best.offer.device),
        objective=asked.objective.value,
        confidence=asked.question.limits.confidence,
        candidates=candidates,
        alternatives=[_alternative(offered) for offered in report.plans.offered],
        rejected=list(_rejected(report)),
        pareto=None if report.front is None else [_point(point) for point in report.front],
        searched=_searched(report, elapsed_s),
        reason=_waits(placements) if nearest is None else nearest.plan.reason,
        closest=None
        if nearest is None or nearest.plan.closest is None
        else rejected_answer(nearest.offer.device, nearest.plan.closest),
        smallest_change=None
        if nearest is None or nearest.plan.smallest_change is None
        else remedy_answer(nearest.plan.smallest_change),
        assumptions=list(asked.assumptions),
    )


def _waits(placements: Sequence[Found]) -> str | None:
    """Return why the best plan does not run today; the placements that do come first."""
    return None if not placements or isinstance(placements[0], Placement) else placements[0].reason


def _candidate(
    offered: Offered, found: tuple[Candidate, FitReport], asked: PlanQuestion, prices: PriceBook, place: Found | None
) -> PlanCandidate:
    candidate, fit = found
    throughput = fit.throughput
    return PlanCandidate(
        num_gpus=candidate.num_gpus,
        gpu=gpu_words(offered.offer.device),
        layout=layout_words(candidate.layout),
        workload=workload_words(candidate.workload),
        fit=fit_answer(fit, assumptions=asked.assumptions),
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        cost_per_hour=offered.offer.cost_per_hour(candidate.num_gpus),
        cost_of_run=offered.cost_of_run(candidate),
        price_source=prices.source(offered.offer),
        placement=None if place is None else placement_answer(place),
        requests=requests_of(
            asked,
            (candidate.workload, candidate.layout),
            offered.offer.device,
            placement=place if isinstance(place, Placement) else None,
        ),
    )


def _alternative(offered: Offered) -> AlternativeAnswer:
    best = offered.plan.candidates[0] if offered.plan.candidates else None
    throughput = None if best is None else best.throughput
    return AlternativeAnswer(
        gpu=gpu_words(offered.offer.device),
        pool=offered.offer.pool,
        num_gpus=offered.plan.num_gpus,
        step_time_s=None if throughput is None else throughput.step_time_s,
        cost_per_hour=offered.cost_per_hour,
        cost_of_run=None if best is None else offered.cost_of_run(best),
        device_bytes=None if best is None else best.estimate.device_bytes,
        reason=offered.plan.reason,
    )


def _rejected(report: PlanReport) -> Iterator[RejectedAnswer]:
    for offered in report.plans.offered:
        yield from rejected_answers(offered.offer.device, offered.plan)


def _point(point: Point) -> ParetoAnswer:
    candidate, throughput = point.candidate, point.candidate.throughput
    require_exact(candidate.estimate)
    return ParetoAnswer(
        num_gpus=candidate.num_gpus,
        gpu=gpu_words(point.offer.device),
        device_bytes=candidate.estimate.device_bytes,
        step_time_s=None if throughput is None else throughput.step_time_s,
        tokens_per_second=None if throughput is None else throughput.tokens_per_second,
        cost_per_hour=point.offer.cost_per_hour(candidate.num_gpus),
        layout=layout_words(candidate.layout),
        workload=workload_words(candidate.workload),
    )


def _searched(report: PlanReport, elapsed_s: float) -> SearchedAnswer:
    searched = [offered.plan.searched for offered in report.plans.offered]
    reasons = sorted({reason for one in searched for reason in one.pruned})
    return SearchedAnswer(
        layouts=sum(one.layouts for one in searched),
        estimated=sum(one.estimated for one in searched),
        pruned={reason: sum(one.pruned.get(reason, 0) for one in searched) for reason in reasons},
        elapsed_ms=round(elapsed_s * 1000, 3),
    )

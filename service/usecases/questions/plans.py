"""Best set of GPUs on the offered kinds, with full fits; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.formats.renderings.job import JobNames
from service.planner.fit.candidates import Candidate
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plans
from service.planner.plans.pareto import ParetoPoint, find_pareto_front
from service.planner.plans.plans import find_plans
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question
from service.usecases.questions.fit import (
    FindCorrections,
    in_cluster,
    make_calibrated_evaluator,
)
from service.usecases.questions.larger_gpus import make_larger_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """One question on several kinds of GPUs.

    ``assumptions`` are the defaults that are not searched.
    """

    architecture: Architecture
    question: Question
    offers: Sequence[Offer]
    objective: Objective
    names: JobNames
    model: str | None = None
    """Name under which the model is asked about again, if it has one."""
    pareto: bool = False
    assumptions: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    """Words of formats that each candidate is rendered in, beside those of every answer."""
    cluster: str = ""
    """The stored cluster whose measurements come first; empty where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """Plans, fits of the best candidates, and any Pareto front.

    The fits are without remedies: what is tight was accepted, and the other candidates stand
    beside it.
    """

    plans: Plans
    fits: tuple[tuple[Candidate, FitReport], ...]
    front: tuple[ParetoPoint, ...] | None


def answer_plans(
    request: PlanQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> PlanReport:
    """Return the plans.

    Raises EstimatorError for what cannot run on any offer, or has no term yet.
    """
    level, find = request.question.level, in_cluster(find_corrections, request.cluster)
    evaluators = [
        (
            offer,
            make_calibrated_evaluator(
                request.architecture,
                offer.device,
                plans=plans,
                find_corrections=find,
                level=level,
            ),
        )
        for offer in request.offers
    ]
    larger = make_larger_gpus(request.architecture, plans=plans, find_corrections=find, level=level)
    result = find_plans(evaluators, request.question, request.objective, larger_gpus=larger)
    best = result.best
    return PlanReport(
        plans=result,
        fits=()
        if best is None
        else tuple(
            (candidate, assess_fit(best.evaluator, candidate.workload, candidate.layout))
            for candidate in best.plan.candidates
        ),
        front=find_pareto_front(result, request.question) if request.pareto else None,
    )

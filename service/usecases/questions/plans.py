"""The best set of GPUs on the kinds that are offered, each plan with the whole answer to a fit question; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.estimate import PlanCache
from service.estimator.model.architecture import Architecture
from service.planner.fit.candidates import Candidate
from service.planner.fit.fit import FitReport, fit
from service.planner.plans.objectives import Objective
from service.planner.plans.offered import Plans
from service.planner.plans.pareto import Point, front
from service.planner.plans.plans import find_plans
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question
from service.usecases.questions.fit import FindCorrections, subject_of
from service.usecases.questions.larger_gpus import larger_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanQuestion:
    """One question on several kinds of GPUs; ``assumptions`` are the defaults that are not searched."""

    architecture: Architecture
    model_name: str
    """What the request calls the model, by which what is rendered for it is called."""
    checkpoints: tuple[str, ...] = ()
    """Ids on the Hugging Face hub of weights of this shape; launchers are told to load the first."""
    question: Question
    offers: Sequence[Offer]
    objective: Objective
    pareto: bool = False
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanReport:
    """The plans, the fit of each candidate of the best, and the front where it was asked for."""

    plans: Plans
    fits: tuple[tuple[Candidate, FitReport], ...]
    front: tuple[Point, ...] | None


def answer_plans(asked: PlanQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None) -> PlanReport:
    """Return the plans; raises EstimatorError for what cannot run on any offer, or has no term yet."""
    level = asked.question.level
    subjects = [
        (offer, subject_of(asked.architecture, offer.device, plans=plans, find_corrections=find_corrections, level=level))
        for offer in asked.offers
    ]
    larger = larger_gpus(asked.architecture, plans=plans, find_corrections=find_corrections, level=level)
    found = find_plans(subjects, asked.question, asked.objective, larger=larger)
    best = found.best
    return PlanReport(
        plans=found,
        fits=() if best is None else tuple((one, fit(best.subject, one.workload, one.layout)) for one in best.plan.candidates),
        front=front(found, asked.question) if asked.pareto else None,
    )

"""Largest value that still fits, with its full answer; pure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.synthetic import build_synthetic_architecture
from service.estimator.values.device import Device
from service.planner.fit.evaluator import Evaluator
from service.planner.fit.fit import FitReport, assess_fit
from service.planner.plans.ceiling_search import Ceiling
from service.planner.plans.ceiling_values import Maximized
from service.planner.plans.ceilings import find_ceiling
from service.planner.search.search_space import Question
from service.usecases.questions.fit import (
    FindCorrections,
    in_cluster,
    make_calibrated_evaluator,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingQuestion:
    """A value to maximise for a model on a GPU.

    Without a model, its own number of parameters is maximised.
    """

    architecture: Architecture | None
    question: Question
    device: Device
    maximized: Maximized
    assumptions: tuple[str, ...] = ()
    cluster: str = ""
    """The stored cluster whose measurements come first; empty where none is named."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingReport:
    """The ceiling and the fit there; None when nothing fits.

    The fit is without remedies: what is tight was accepted.
    """

    ceiling: Ceiling
    fit: FitReport | None


def answer_ceiling(
    request: CeilingQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> CeilingReport:
    """Return the ceiling.

    Raises EstimatorError for what cannot run or has no term yet.
    """
    evaluator_at = _make_evaluators(request, plans, find_corrections)
    ceiling = find_ceiling(request.question, request.maximized, evaluator_at)
    best = ceiling.best
    if best is None:
        return CeilingReport(ceiling=ceiling, fit=None)
    return CeilingReport(
        ceiling=ceiling, fit=assess_fit(evaluator_at(best.value), best.workload, best.layout)
    )


def _make_evaluators(
    request: CeilingQuestion, plans: PlanCache, find_corrections: FindCorrections | None
) -> Callable[[int], Evaluator]:
    """Return a function from a value to its evaluator.

    It is one and the same model at every value, or a scaled one of that size.
    """
    level = request.question.level
    if request.architecture is not None:
        evaluator = make_calibrated_evaluator(
            request.architecture,
            request.device,
            plans=plans,
            find_corrections=in_cluster(find_corrections, request.cluster),
            level=level,
        )
        return lambda _value: evaluator
    make_of_size = partial(
        make_calibrated_evaluator,
        device=request.device,
        plans=plans,
        find_corrections=None,
        level=level,
    )
    return cache(lambda value: make_of_size(build_synthetic_architecture(value)))

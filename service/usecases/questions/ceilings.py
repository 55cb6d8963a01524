"""The largest value that still fits, with the whole answer there; pure."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

from service.estimator.estimate import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.model.families.synthetic import architecture_of_size
from service.estimator.values.device import Device
from service.planner.fit.evaluator import Subject
from service.planner.fit.fit import FitReport, fit
from service.planner.plans.ceiling_values import Maximized
from service.planner.plans.ceilings import Ceiling, find_ceiling
from service.planner.search.search_space import Question
from service.usecases.questions.fit import FindCorrections, subject_of


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingQuestion:
    """What is maximised for a model on a GPU; without a model its own number of parameters."""

    architecture: Architecture | None
    question: Question
    device: Device
    maximized: Maximized
    assumptions: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CeilingReport:
    """The ceiling, and the answer to a fit question there; None when nothing fits."""

    ceiling: Ceiling
    fit: FitReport | None


def answer_ceiling(
    asked: CeilingQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> CeilingReport:
    """Return the ceiling; raises EstimatorError for what cannot run or has no term yet."""
    subject = _subjects(asked, plans, find_corrections)
    ceiling = find_ceiling(asked.question, asked.maximized, subject)
    best = ceiling.best
    if best is None:
        return CeilingReport(ceiling=ceiling, fit=None)
    return CeilingReport(ceiling=ceiling, fit=fit(subject(best.value), best.workload, best.layout))


def _subjects(asked: CeilingQuestion, plans: PlanCache, find_corrections: FindCorrections | None) -> Callable[[int], Subject]:
    """Return the model at a value: one and the same, or a scaled one of that size."""
    level = asked.question.level
    if asked.architecture is not None:
        subject = subject_of(asked.architecture, asked.device, plans=plans, find_corrections=find_corrections, level=level)
        return lambda _value: subject
    of_size = partial(subject_of, device=asked.device, plans=plans, find_corrections=None, level=level)
    return cache(lambda value: of_size(architecture_of_size(value)))

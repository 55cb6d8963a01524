"""How many GPUs, once per SKU that a name stands for; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.estimate import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.planner.plans.how_many import how_many
from service.planner.plans.offered import Plan, everywhere, refused
from service.planner.search.search_space import Question
from service.usecases.questions.fit import FindCorrections, subject_of
from service.usecases.questions.larger_gpus import larger_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class HowManyQuestion:
    """One question for several kinds of GPU; ``assumptions`` are the defaults that were not searched."""

    architecture: Architecture
    question: Question
    devices: Sequence[Device]
    assumptions: tuple[str, ...] = ()


def answer_how_many(
    asked: HowManyQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> tuple[tuple[Device, Plan], ...]:
    """Return the plan for each kind of GPU; raises EstimatorError for what cannot run, or has no term yet, on any of them."""
    level = asked.question.level
    larger = larger_gpus(asked.architecture, plans=plans, find_corrections=find_corrections, level=level)
    found: list[tuple[Device, Plan]] = []
    refusals: list[tuple[str, EstimatorError]] = []
    for device in asked.devices:
        subject = subject_of(asked.architecture, device, plans=plans, find_corrections=find_corrections, level=level)
        try:
            plan = how_many(subject, asked.question, larger=larger)
        except EstimatorError as error:
            refusals.append((device.name, error))
            plan = refused(error)
        found.append((device, plan))
    if len(refusals) == len(found):
        raise everywhere(refusals)
    return tuple(found)

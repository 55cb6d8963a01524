"""How many GPUs, once per SKU that a name stands for; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.architecture import Architecture
from service.estimator.device import Device
from service.estimator.estimate import PlanCache
from service.planner.how_many import how_many
from service.planner.plans import Plan
from service.planner.space import Question
from service.usecases.fit import FindCorrections, subject_of
from service.usecases.larger import larger_gpus


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
    """Return the plan for each kind of GPU; raises EstimatorError for what cannot run or has no term yet."""
    larger = larger_gpus(asked.architecture, plans=plans, find_corrections=find_corrections)
    subjects = (
        (device, subject_of(asked.architecture, device, plans=plans, find_corrections=find_corrections))
        for device in asked.devices
    )
    return tuple((device, how_many(subject, asked.question, larger=larger)) for device, subject in subjects)

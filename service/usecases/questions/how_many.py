"""Number of GPUs for each SKU that a name stands for; pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.device import Device
from service.estimator.values.errors import EstimatorError
from service.formats.renderings.job import JobNames
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.offered import Plan, make_refused_plan, merge_refusals
from service.planner.search.search_space import Question
from service.usecases.questions.fit import (
    FindCorrections,
    in_cluster,
    make_calibrated_evaluator,
)
from service.usecases.questions.larger_gpus import make_larger_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class HowManyQuestion:
    """One question for several kinds of GPU.

    ``assumptions`` are the defaults that were not searched, ``formats`` the words of those that
    each candidate is rendered in.
    """

    architecture: Architecture
    question: Question
    devices: Sequence[Device]
    names: JobNames
    assumptions: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    cluster: str = ""
    """The stored cluster whose measurements come first; empty where none is named."""


def answer_how_many(
    request: HowManyQuestion, *, plans: PlanCache, find_corrections: FindCorrections | None = None
) -> tuple[tuple[Device, Plan], ...]:
    """Return the plan for each kind of GPU.

    Raises EstimatorError for what cannot run, or has no term yet, on any of them.
    """
    level, find = request.question.level, in_cluster(find_corrections, request.cluster)
    larger = make_larger_gpus(request.architecture, plans=plans, find_corrections=find, level=level)
    answers: list[tuple[Device, Plan]] = []
    refusals: list[tuple[str, EstimatorError]] = []
    for device in request.devices:
        evaluator = make_calibrated_evaluator(
            request.architecture,
            device,
            plans=plans,
            find_corrections=find,
            level=level,
        )
        try:
            plan = find_fewest_gpus(evaluator, request.question, larger_gpus=larger)
        except EstimatorError as error:
            refusals.append((device.name, error))
            plan = make_refused_plan(error)
        answers.append((device, plan))
    if len(refusals) == len(answers):
        raise merge_refusals(refusals)
    return tuple(answers)

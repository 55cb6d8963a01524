"""Published runs with their layouts pinned: what ran comes back as a plan, what ran out of memory
as none.
"""

from dataclasses import fields

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.layout import Layout
from service.estimator.values.workload import ServeWorkload, TrainWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.plans.objectives import Objective
from service.planner.plans.plans import plan_offer
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.accuracy.published.asking import question_of
from tests.accuracy.published.rows import PublishedCase, published_cases

SOURCES = ("titan_", "mlm_", "aai_", "mosaic_")
"""torchtitan's tables, Megatron-LM's CI, fsdp_qlora's and LLM Foundry's benchmarks."""
EVERYTHING = frozenset(
    field.name for kind in (TrainWorkload, ServeWorkload, Layout) for field in fields(kind)
)
PLANS = PlanCache()


def number(case: PublishedCase, *, confidence: float | None) -> int | None:
    """Return the GPUs of the plan that keeps every word of a run; what would help one that has none
    is not searched.
    """
    asked = question_of(case)
    limits = Limits(max_gpus=asked.layout.num_gpus, confidence=confidence)
    question = Question(
        workload=asked.workload, layout=asked.layout, fixed=EVERYTHING, limits=limits
    )
    subject, offer = (
        make_evaluator(asked.architecture, asked.device, plans=PLANS),
        Offer(device=asked.device),
    )
    search = Search(subject, SearchSpace(asked.architecture, question, offer))
    return plan_offer(offer, search, Objective.FEWEST_GPUS).num_gpus


RAN = [case for case in published_cases() if case.id.startswith(SOURCES) and case.outcome == "ok"]
FAILED = [case for case in published_cases() if case.outcome == "oom"]


def test_what_ran_comes_back_as_a_plan() -> None:
    """Each of some three hundred runs, on the GPUs and in the layout that it had."""
    assert len(RAN) > 300
    assert [
        case.id
        for case in RAN
        if number(case, confidence=None) != question_of(case).layout.num_gpus
    ] == []


@pytest.mark.parametrize("case", FAILED, ids=[case.id for case in FAILED])
def test_what_ran_out_of_memory_does_not(case: PublishedCase) -> None:
    """No plan is promised for it: there are no exceptions."""
    assert number(case, confidence=0.95) is None

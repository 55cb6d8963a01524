"""Published runs with their layouts pinned: what ran comes back as a plan, what ran out of memory
as none.
"""

from collections.abc import Iterable
from dataclasses import fields
from operator import itemgetter

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


def list_largest(cases: Iterable[PublishedCase]) -> list[PublishedCase]:
    """Return the run of the most tokens of each model in each layout.

    The smaller ones differ from it by numbers alone, and hold less.
    """
    largest: dict[tuple[object, ...], tuple[int, PublishedCase]] = {}
    for case in cases:
        asked = question_of(case)
        assert isinstance(asked.workload, TrainWorkload)
        tokens = asked.workload.micro_batch_size * asked.workload.sequence_length
        spec, framework = asked.architecture.spec, asked.workload.framework
        place = spec.hidden_size, spec.num_hidden_layers, asked.layout, framework, asked.device.name
        largest[place] = max(largest.get(place, (0, case)), (tokens, case), key=itemgetter(0))
    return [case for _, case in largest.values()]


FAILED = [case for case in published_cases() if case.outcome == "oom"]


def test_what_ran_comes_back_as_a_plan() -> None:
    """Each of some hundred and fifty runs, on the GPUs and in the layout that it had."""
    ran = list_largest(
        case for case in published_cases() if case.id.startswith(SOURCES) and case.outcome == "ok"
    )

    assert len(ran) > 140
    assert [
        case.id
        for case in ran
        if number(case, confidence=None) != question_of(case).layout.num_gpus
    ] == []


@pytest.mark.parametrize("case", FAILED, ids=[case.id for case in FAILED])
def test_what_ran_out_of_memory_does_not(case: PublishedCase) -> None:
    """No plan is promised for it: there are no exceptions."""
    assert number(case, confidence=0.95) is None

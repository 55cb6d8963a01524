"""Fewest GPUs of any card, against a search without bounds."""

from contextlib import suppress
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.units import MIB
from service.planner.fit.evaluator import Evaluate, Evaluator
from service.planner.fit.verdict import Verdict, judge
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search_space import Question
from tests.unit.planner.builders import ONE_GPU, SHORT, a_shallow_subject
from tests.unit.planner.plans.test_how_many import BATCHES, REPLICATED, SMALL, find_plan

MEMORY = st.integers(min_value=2600, max_value=6000).map(lambda mebibytes: mebibytes * MIB)
NONE = 2**20
"""No number of GPUs is enough: more than any."""
PLANS = PlanCache(capacity=8192)
"""Recordings and replays of the model that is searched over and over: no memory of a GPU changes
them. Where no number is enough, a search makes a thousand.
"""


def _two_layers(usable_bytes: int) -> Evaluator:
    return a_shallow_subject(2, model="gpt2-xl", usable_bytes=usable_bytes, plans=PLANS)


def _brute_force(
    subject: Evaluator, question: Question, asks: tuple[Evaluate, ...], accepted: set[Verdict]
) -> int:
    """Return the smallest size of which any configuration is accepted however it is asked, without
    a bound or a shortcut.
    """
    space = SearchSpace(subject.architecture, question, Offer(device=subject.device))
    for count in space.counts:
        for config in (
            space.build_config(slot, batch)
            for slot in space.list_options(count)
            for batch in space.list_batches(slot)
        ):
            with suppress(EstimatorError):
                # What is allocated is alike with and without a replay, and never more than the
                # device holds.
                if subject.estimate_numbers(*config).allocated_bytes > subject.device.usable_bytes:
                    continue
                if all(judge(ask(*config), subject.device).verdict in accepted for ask in asks):
                    return count
    return NONE


@settings(max_examples=15, deadline=None)
@given(
    usable=MEMORY,
    confidence=st.sampled_from([0.95, None]),
    fixed=st.sampled_from([(), ("zero_stage",), ("micro_batch_size",)]),
)
def test_the_answer_is_the_fewest(
    usable: int, confidence: float | None, fixed: tuple[str, ...]
) -> None:
    """None is too small for what replays of everything show; bounds skip nothing that numbers and
    replay agree on.
    """
    subject = _two_layers(usable)
    limits = replace(SMALL, confidence=confidence)
    question = Question(
        workload=BATCHES,
        layout=ONE_GPU,
        fixed=frozenset(fixed),
        limits=limits,
        frameworks=REPLICATED,
    )
    accepted = {Verdict.FITS} if confidence else {Verdict.FITS, Verdict.TIGHT}

    found = find_fewest_gpus(subject, question).num_gpus or NONE

    assert _brute_force(subject, question, (subject.answer,), accepted) <= found
    assert found <= _brute_force(
        subject, question, (subject.estimate_numbers, subject.answer), accepted
    )


@settings(max_examples=25, deadline=None)
@given(small=MEMORY, more=MEMORY)
def test_more_memory_never_needs_more_gpus(small: int, more: int) -> None:
    """None counts as more than any number."""
    few, many = (
        find_plan(_two_layers(usable), BATCHES, limits=SMALL).num_gpus or NONE
        for usable in (small + more, small)
    )

    assert few <= many


@settings(max_examples=10, deadline=None)
@given(usable=MEMORY, per_node=st.sampled_from([1, 4, 8]))
def test_a_plan_fed_back_gives_the_same_bytes(usable: int, per_node: int) -> None:
    """A candidate is complete; what is smaller is rejected, each size once and with a deficit."""
    subject = _two_layers(usable)
    question = Question(workload=SHORT, layout=Layout(gpus_per_node=per_node), limits=SMALL)

    plan = find_fewest_gpus(subject, question)

    for candidate in plan.candidates:
        assert subject.answer(candidate.workload, candidate.layout) == candidate.estimate
        assert candidate.estimate.num_gpus == candidate.num_gpus == plan.num_gpus
        assert candidate.judgement.verdict is Verdict.FITS
    counts = SearchSpace(subject.architecture, question, Offer(device=subject.device)).counts
    assert [miss.num_gpus for miss in plan.rejected] == [
        count for count in counts if plan.num_gpus is None or count < plan.num_gpus
    ]
    assert all(
        miss.missing_bytes >= miss.deficit_bytes and miss.missing_bytes and miss.reason
        for miss in plan.rejected
    )

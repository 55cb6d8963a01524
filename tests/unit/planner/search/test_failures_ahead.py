"""Failures that are looked for on more GPUs change no plan: against the same search that tries
each batch anew on each number.
"""

from dataclasses import dataclass, replace
from random import Random

import pytest

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.units import MIB
from service.estimator.values.workload import Framework, TrainWorkload
from service.planner.fit.candidates import Candidate
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.plans.objectives import Objective
from service.planner.plans.plans import plan_offer
from service.planner.search.failed_shards import FailuresAhead
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.replays import PossibleBatches
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device, shallow

MODELS = [shallow("tinyllama-1.1b", 2), shallow("mixtral-8x7b", 1)]
NUM_QUESTIONS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The cheapest run, and how many estimates it took."""

    candidate: Candidate | None
    num_estimated: int


def random_run(random: Random) -> Question:
    """Return a run whose tokens are known, on up to dozens of GPUs."""
    workload = TrainWorkload(
        sequence_length=random.choice([512, 2048]),
        framework=Framework.TRANSFORMERS,
        num_tokens=10**9,
    )
    return Question(
        workload=workload,
        layout=Layout(),
        fixed=frozenset(random.sample(["context_parallel", "pipeline_parallel"], k=1)),
        limits=Limits(max_gpus=64, confidence=random.choice([0.95, None])),
        frameworks=frozenset(random.sample(["deepspeed", "fsdp2", "torchtitan", "megatron"], k=2)),
        allow=frozenset(random.choice([(), ("offload",)])),
    )


def plan(model: Architecture, question: Question, usable: int, plans: PlanCache) -> Outcome:
    """Return the cheapest run on GPUs of so many bytes."""
    device = a_device(usable)
    offer = Offer(device=device, price_per_gpu_hour=2.0)
    subject = make_evaluator(model, device, plans=plans)
    search = Search(subject, SearchSpace(model, question, offer))
    try:
        candidates = plan_offer(offer, search, Objective.CHEAPEST).candidates
    except EstimatorError:
        candidates = ()
    return Outcome(
        candidate=candidates[0] if candidates else None, num_estimated=search.num_estimated
    )


@pytest.mark.parametrize("model", MODELS, ids=["dense", "experts"])
def test_looking_ahead_changes_no_cheapest_run(
    model: Architecture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over seeded random questions: the same layout, batch and time, of fewer estimates."""
    random, plans = Random(20261201), PlanCache(capacity=4096)  # noqa: S311 - questions
    questions = [
        (random_run(random), int(random.uniform(1.5, 9) * 1024) * MIB) for _ in range(NUM_QUESTIONS)
    ]

    pruned = [plan(model, question, usable, plans) for question, usable in questions]
    monkeypatch.setattr(FailuresAhead, "_rule_out", lambda *_ignored: None)
    monkeypatch.setattr(PossibleBatches, "is_ruled_out", lambda *_ignored: False)
    exhaustive = [plan(model, question, usable, plans) for question, usable in questions]

    assert sum(one.candidate is not None for one in pruned) > NUM_QUESTIONS / 2
    for ahead, plain in zip(pruned, exhaustive, strict=True):
        assert (ahead.candidate is None) == (plain.candidate is None)
        if ahead.candidate is not None and plain.candidate is not None:
            assert ahead.candidate.layout == plain.candidate.layout
            assert ahead.candidate.workload == plain.candidate.workload
            assert ahead.candidate.estimate == plain.candidate.estimate
    assert sum(one.num_estimated for one in pruned) < sum(one.num_estimated for one in exhaustive)


def test_what_is_ruled_out_ahead_fits_nowhere_below() -> None:
    """Each batch that a look ahead covers lacks memory by its numbers, asked by itself."""
    model, plans, covered = MODELS[0], PlanCache(capacity=4096), 0
    device = a_device(2600 * MIB)
    question = replace(
        random_run(Random(3)),  # noqa: S311 - a question
        frameworks=frozenset({"fsdp2", "megatron"}),
        allow=frozenset[str](),
    )
    subject = make_evaluator(model, device, plans=plans)
    search = Search(subject, SearchSpace(model, question, Offer(device=device)))
    ahead = FailuresAhead(search.space, search.possible)
    for option in search.space.list_options(8):
        for batch in search.space.list_batches(option):
            ahead.fits(option, batch)
    for option in search.space.list_options(16):
        for batch in search.space.list_batches(option):
            if search.possible.is_ruled_out(option, batch):
                covered += 1
                answer = subject.answer(*search.space.build_config(option, batch))
                confident = question.limits.confidence is not None
                assert missing_bytes(answer, device, confident=confident)

    assert covered > 0

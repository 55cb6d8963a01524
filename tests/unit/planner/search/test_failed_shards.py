"""A batch without room in many shards has none in fewer: what a search rules out without an
estimate never fits.
"""

from collections import Counter
from contextlib import suppress
from random import Random

import pytest

from service.estimator.cache import PlanCache
from service.estimator.model.architecture import Architecture
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.units import MIB
from service.estimator.values.workload import TrainWorkload
from service.planner.fit.evaluator import make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.search.failed_shards import FailedShards
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from service.planner.search.tried_batches import TriedBatches
from tests.unit.planner.builders import a_device, shallow

MODELS = [shallow("tinyllama-1.1b", 2), shallow("gpt2", 3, "n_layer"), shallow("mixtral-8x7b", 1)]
COUNTS = (3, 5, 8, 16, 24, 40, 64)


@pytest.mark.parametrize("model", MODELS, ids=["even rows", "odd rows", "experts"])
def test_what_fewer_shards_are_ruled_out_for_does_not_fit(model: Architecture) -> None:
    """Every option of every count that a failure on more shards covers lacks memory."""
    random, plans, covered = Random(7), PlanCache(capacity=4096), 0  # noqa: S311 - questions
    question = Question(
        workload=TrainWorkload(sequence_length=512, micro_batch_size=1),
        layout=Layout(),
        fixed=frozenset({"micro_batch_size", "activation_checkpointing"}),
        limits=Limits(max_gpus=64),
    )
    for _ in range(3):
        device = a_device(random.randint(900, 6000) * MIB)
        evaluator = make_evaluator(model, device, plans=plans)
        space = SearchSpace(model, question, Offer(device=device))
        failed = FailedShards(model, question.workload)
        for count in reversed(COUNTS):
            for option in space.list_options(count):
                batch = space.list_batches(option)[0]
                with suppress(EstimatorError):
                    estimate = evaluator.estimate_numbers(*space.build_config(option, batch))
                    if failed.covers(option, batch):
                        covered += 1
                        assert missing_bytes(estimate, device, confident=True), option
                    failed.record(
                        option, batch, estimate.device_interval.high - device.usable_bytes
                    )

    assert covered > 0


def test_a_search_without_an_answer_looks_at_the_largest_number_first() -> None:
    """Hundreds of layouts are ruled out by what lacks memory on all GPUs there are."""
    model, device = MODELS[0], a_device(1500 * MIB)
    question = Question(
        workload=TrainWorkload(sequence_length=2048, micro_batch_size=1),
        layout=Layout(),
        fixed=frozenset({"micro_batch_size", "activation_checkpointing", "context_parallel"}),
        frameworks=frozenset({"transformers"}),
    )
    search = Search(
        make_evaluator(model, device), SearchSpace(model, question, Offer(device=device))
    )

    enough = [count for count in search.space.counts if search.suffices(count)]

    assert enough == []
    assert search.pruned["fewer_shards"] > 100
    assert search.num_estimated < search.pruned["fewer_shards"]


def test_a_failure_counts_when_it_exceeds_the_rows_that_fill_tensors_up() -> None:
    """A table of 50,257 rows in 64 shards is filled up with 47, not with one for each shard."""
    model = MODELS[1]
    question = Question(
        workload=TrainWorkload(sequence_length=512, micro_batch_size=1),
        layout=Layout(),
        frameworks=frozenset({"fsdp2"}),
    )
    space = SearchSpace(model, question, Offer(device=a_device(900 * MIB)))
    many, few = (
        next(
            option
            for option in space.list_options(count)
            if option.layout.data_parallel == count and option.layout.zero_stage
        )
        for count in (64, 32)
    )
    batch, row_bytes = space.list_batches(many)[0], 768 * 32
    failed = FailedShards(model, question.workload)

    failed.record(many, batch, 47 * row_bytes)
    before = failed.covers(few, batch)
    failed.record(many, batch, 47 * row_bytes + 1)

    assert not before
    assert failed.covers(few, batch)


def test_an_option_is_closed_once_its_least_batch_failed_in_more_shards() -> None:
    """Nothing of the same split on fewer ranks is timed or estimated any more."""
    model, device = MODELS[0], a_device(900 * MIB)
    question = Question(
        workload=TrainWorkload(sequence_length=512),
        layout=Layout(),
        frameworks=frozenset({"fsdp2"}),
    )
    space = SearchSpace(model, question, Offer(device=device))
    many, few = (
        next(
            option
            for option in space.list_options(count)
            if option.layout.data_parallel == count and option.layout.zero_stage
        )
        for count in (64, 32)
    )
    batches = TriedBatches(make_evaluator(model, device), space, Counter())

    before = batches.is_open(few)
    batches.try_smallest(many)

    assert before
    assert not batches.is_open(few)
    assert batches.num_estimated == 1
    assert not any(batches.fits(few, batch) for batch in space.list_batches(few))

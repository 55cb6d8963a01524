"""The fewest GPUs for a remedy: what halving finds is what looking at each number finds."""

from contextlib import suppress
from dataclasses import replace

import pytest

from service.estimator.cache import PlanCache
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.units import MIB
from service.estimator.values.workload import TrainWorkload, Workload
from service.planner.fit.evaluator import Evaluator, make_evaluator
from service.planner.fit.verdict import missing_bytes
from service.planner.remedies.fewest import _rule_out_few, find_fewest
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search import Search
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import a_device, shallow

MODEL, PLANS = shallow("llama-3.1-8b", 4), PlanCache(capacity=4096)
MOST = 48
QUESTION = Question(
    workload=TrainWorkload(sequence_length=512, micro_batch_size=1),
    layout=Layout(),
    fixed=frozenset({"micro_batch_size", "activation_checkpointing"}),
    limits=Limits(max_gpus=256),
    frameworks=frozenset({"fsdp2", "torchtitan"}),
)


@pytest.mark.parametrize("mebibytes", [3300, 3500])
def test_the_fewest_is_what_a_look_at_each_number_finds(mebibytes: int) -> None:
    """It takes fewer estimates where dozens of numbers are too few."""
    device = a_device(mebibytes * MIB)
    evaluator, asked = _count_estimates(make_evaluator(MODEL, device, plans=PLANS))
    counts, each = _look_at_each(make_evaluator(MODEL, device, plans=PLANS))

    candidate = find_fewest(evaluator, QUESTION, Offer(device=device))

    assert (None if candidate is None else candidate.num_gpus) == next(iter(counts), None)
    assert len(asked) < each


def _count_estimates(evaluator: Evaluator) -> tuple[Evaluator, list[Workload]]:
    asked: list[Workload] = []

    def estimate(workload: Workload, layout: Layout) -> Estimate:
        asked.append(workload)
        return evaluator.estimate_numbers(workload, layout)

    return replace(evaluator, outlined=estimate), asked


def _look_at_each(evaluator: Evaluator) -> tuple[list[int], int]:
    """Return the first number that suffices, if any, and the estimates until then."""
    search = Search(evaluator, SearchSpace(MODEL, QUESTION, Offer(device=evaluator.device)))
    enough = [next((n for n in search.space.counts if search.suffices(n)), 0)]
    return [n for n in enough if n], search.num_estimated


def test_two_large_numbers_tell_that_none_is_enough() -> None:
    """No other number is looked at then; where one of them is enough the answer is the same."""
    question = replace(QUESTION, frameworks=None)
    short, enough = (Offer(device=a_device(mebibytes * MIB)) for mebibytes in (3000, 3500))
    probed, of_two = _count_estimates(make_evaluator(MODEL, short.device, plans=PLANS))
    each, of_all = _count_estimates(make_evaluator(MODEL, short.device, plans=PLANS))
    sufficient = make_evaluator(MODEL, enough.device, plans=PLANS)

    found = find_fewest(sufficient, QUESTION, enough, probes=True)

    assert found == find_fewest(sufficient, QUESTION, enough)
    assert find_fewest(probed, question, short, probes=True) is None
    assert find_fewest(each, question, short) is None
    assert 0 < len(of_two) < len(of_all)


def test_what_is_ruled_out_by_its_split_has_no_room() -> None:
    """What is not listed because its split's states, or many ranks of it, had none lacks memory."""
    question = replace(QUESTION, frameworks=None, allow=frozenset({"offload"}))
    device, unlisted = a_device(3300 * MIB), 0
    evaluator = make_evaluator(MODEL, device, plans=PLANS)
    space = SearchSpace(MODEL, question, Offer(device=device))
    search = Search(evaluator, space, counts_all=False)
    counts = [number for number in space.counts if number <= MOST]
    _rule_out_few(search, counts)

    for number in counts:
        likely = set(search.memory_bounds.list_feasible(number))
        for option in set(space.list_options(number)) - likely:
            config = space.build_config(option, space.list_batches(option)[0])
            with suppress(EstimatorError):
                assert missing_bytes(evaluator.estimate_numbers(*config), device, confident=True)
                unlisted += 1

    assert unlisted > len(counts)


@pytest.mark.parametrize("mebibytes", [1500, 3300])
def test_the_fewest_is_found_with_offloads_and_every_strategy(mebibytes: int) -> None:
    """Splits that are ruled out at once are none that a look at each number would have taken."""
    question = replace(
        QUESTION, frameworks=None, allow=frozenset({"offload"}), limits=Limits(max_gpus=MOST)
    )
    device = a_device(mebibytes * MIB)
    evaluator = make_evaluator(MODEL, device, plans=PLANS)
    search = Search(evaluator, SearchSpace(MODEL, question, Offer(device=device)))

    found = find_fewest(evaluator, question, Offer(device=device))

    number = next((n for n in search.space.counts if search.suffices(n)), None)
    assert (None if found is None else found.num_gpus) == number
    assert number is None or found == next(search.iter_best(number))

"""What lies beyond the GPUs that a request allows: the number that is enough, or that none is."""

import pytest

from service.contract.to_answer.phrases import format_shortage
from service.estimator.values.layout import Layout
from service.estimator.values.workload import TrainWorkload
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.offered import Plan
from service.planner.search.search_space import DEFAULT_MAX_GPUS, Limits, Question
from tests.unit.planner.builders import SHORT, a_subject

GIB = 2**30


def find_plan(
    usable_bytes: int, *, max_gpus: int, workload: TrainWorkload = SHORT, fixed: str = ""
) -> Plan:
    """Return the plan of gpt2 on GPUs of so much memory."""
    question = Question(
        workload=workload,
        layout=Layout(),
        limits=Limits(max_gpus=max_gpus),
        fixed=frozenset({"micro_batch_size", *fixed.split()}),
    )
    return find_fewest_gpus(a_subject(usable_bytes=usable_bytes), question)


def test_the_number_beyond_the_limit_is_that_of_the_search_without_it() -> None:
    """One GPU is too few: the answer names the number that is not."""
    limited = find_plan(3 * GIB, max_gpus=1)
    free = find_plan(3 * GIB, max_gpus=DEFAULT_MAX_GPUS)

    assert limited.num_gpus is None
    assert limited.beyond is not None
    assert (limited.beyond.allowed_gpus, limited.beyond.num_gpus) == (1, free.num_gpus)
    assert free.beyond is None


def test_none_is_enough_up_to_the_searchs_own_limit() -> None:
    """Where the model has no room at all the answer says how far it looked."""
    plan = find_plan(GIB // 2, max_gpus=1, fixed="tensor_parallel")

    assert plan.beyond is not None
    assert (plan.beyond.num_gpus, plan.beyond.max_gpus) == (None, DEFAULT_MAX_GPUS)


def test_a_fixed_number_has_nothing_beyond() -> None:
    """More GPUs are no answer to a request that fixes how many there are."""
    plan = find_plan(
        2 * GIB,
        max_gpus=8,
        fixed="data_parallel tensor_parallel pipeline_parallel context_parallel",
    )

    assert plan.num_gpus is None
    assert plan.beyond is None


@pytest.mark.parametrize(
    ("beyond", "headline"),
    [
        (
            {"allowed_gpus": 8, "num_gpus": 24, "max_gpus": 1024},
            "8 GPUs are not enough, 24 are",
        ),
        ({"allowed_gpus": 1, "num_gpus": 2, "max_gpus": 1024}, "1 GPU is not enough, 2 are"),
        (
            {"allowed_gpus": 8, "num_gpus": None, "max_gpus": 1024},
            "no number of GPUs up to 1,024 is enough",
        ),
        (None, "16 GPUs are not enough"),
    ],
)
def test_the_headline_says_which_number_is_enough(beyond: object, headline: str) -> None:
    """It never says that none is where one beyond the request's limit is."""
    assert format_shortage({"beyond": beyond, "closest": {"num_gpus": 16}}) == headline

"""Numbers of GPUs that no layout fills are named with the rule, the bound or the word that leaves
them out.
"""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Engine, ServeWorkload, TrainWorkload, Workload
from service.planner.plans.how_many import find_fewest_gpus
from service.planner.plans.no_layout_reasons import list_no_layout_reasons
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import LONG, ONE_GPU, an_a100_subject

SERVED = ServeWorkload(engine=Engine.VLLM, num_sequences=32, prompt_tokens=512, output_tokens=64)
SGLANG = replace(SERVED, engine=Engine.SGLANG)
SPLIT = frozenset({"tensor_parallel", "pipeline_parallel", "context_parallel"})
LARGE = an_a100_subject("llama-2-70b")


def reasons(workload: Workload, layout: Layout, *fixed: str, **limits: int) -> Mapping[int, str]:
    """Return why numbers up to a node's are not filled."""
    question = Question(
        workload=workload,
        layout=layout,
        fixed=frozenset(fixed),
        limits=Limits(max_gpus=8, **limits),
    )
    space = SearchSpace(LARGE.architecture, question, Offer(device=LARGE.device))
    return {one.num_gpus: one.reason for one in list_no_layout_reasons(space, 9)}


def test_fewer_replicas_than_are_asked_for_are_named() -> None:
    """Each number says how many sequences it serves at most."""
    found = reasons(SERVED, ONE_GPU, min_num_sequences=100)

    assert list(found) == [1, 2, 3]
    assert found[1] == "at most 1 replica on 1 GPU: 32 sequences at once, fewer than 100"
    assert found[3] == "at most 3 replicas on 3 GPUs: 96 sequences at once, fewer than 100"


def test_a_batch_that_cannot_be_dealt_out_names_its_ranks() -> None:
    """Sixteen sequences go to no three ranks, and to no two in micro batches of twelve."""
    dealt = reasons(LONG, ONE_GPU, *SPLIT, global_batch_size=16)
    sized = reasons(
        replace(LONG, micro_batch_size=12),
        ONE_GPU,
        *SPLIT,
        "micro_batch_size",
        global_batch_size=36,
    )

    assert list(dealt) == [3, 5, 6, 7]
    assert (
        dealt[3]
        == "a global batch of 16 cannot be dealt out to 3 data-parallel ranks, and 3 GPUs have no others"  # noqa: E501
    )
    assert sized[2].startswith(
        "a global batch of 36 cannot be dealt out to 2 data-parallel ranks of 12 sequences each"
    )
    assert 3 not in sized


def test_several_ways_to_deal_a_batch_are_all_named() -> None:
    """Where degrees are open, each number of ranks that they leave is in the reason."""
    found = reasons(LONG, ONE_GPU, "context_parallel", "pipeline_parallel", global_batch_size=16)

    assert found[6].startswith(
        "a global batch of 16 cannot be dealt out to 3 or 6 data-parallel ranks"
    )


@pytest.mark.parametrize(
    ("workload", "layout", "fixed", "number", "says"),
    [
        (LONG, Layout(tensor_parallel=4), "tensor_parallel", 2, "tensor_parallel 4 takes 4 GPUs"),
        (
            LONG,
            Layout(tensor_parallel=4),
            "tensor_parallel",
            6,
            "6 GPUs are no multiple of 4, which tensor_parallel 4 takes",
        ),
        (
            LONG,
            Layout(data_parallel=3),
            "data_parallel",
            7,
            "7 GPUs are no multiple of 3, which data_parallel 3 takes",
        ),
        (
            SGLANG,
            ONE_GPU,
            "pipeline_parallel",
            6,
            "tensor_parallel 6 does not divide 64 attention heads",
        ),
        (
            SGLANG,
            Layout(data_parallel=2),
            "data_parallel",
            5,
            "5 GPUs are no multiple of 2, which data_parallel 2 takes",
        ),
    ],
)
def test_what_the_request_fixes_and_how_the_model_divides_are_named(
    workload: Workload, layout: Layout, fixed: str, number: int, says: str
) -> None:
    """The pinned word, or the rule that the open degree breaks."""
    assert says in reasons(workload, layout, fixed)[number]


def test_an_island_that_is_left_is_named() -> None:
    """Sixteen tensor-parallel ranks have no island of eight, and nothing else is open."""
    question = Question(
        workload=SERVED,
        layout=ONE_GPU,
        fixed=frozenset({"pipeline_parallel"}),
        limits=Limits(max_gpus=16),
    )
    space = SearchSpace(LARGE.architecture, question, Offer(device=LARGE.device))
    (found,) = (one for one in list_no_layout_reasons(space, 17) if one.num_gpus == 16)

    assert (
        found.reason
        == "no layout fills 16 GPUs: tensor_parallel 16 leaves the 8 GPUs of an NVLink island"
    )


@pytest.mark.parametrize(
    ("workload", "limits"),
    [
        (replace(SERVED, num_sequences=64), Limits()),
        (replace(SERVED, num_sequences=64), Limits(min_num_sequences=200)),
        (TrainWorkload(sequence_length=1024), Limits(global_batch_size=48, max_gpus=64)),
    ],
)
def test_every_number_below_a_plan_has_a_reason(workload: Workload, limits: Limits) -> None:
    """Misses and unfilled numbers together are all that is below, each once, in a sentence of its
    own.
    """
    question = Question(workload=workload, layout=ONE_GPU, limits=limits)
    plan = find_fewest_gpus(LARGE, question)
    space = SearchSpace(LARGE.architecture, question, Offer(device=LARGE.device))

    assert plan.num_gpus is not None
    told = sorted(
        [one.num_gpus for one in plan.no_layout_reasons] + [miss.num_gpus for miss in plan.rejected]
    )
    assert told == [number for number in space.numbers if number < plan.num_gpus]
    assert all("no legal layout" not in one.reason for one in plan.no_layout_reasons)


def test_numbers_that_no_nodes_have_are_named() -> None:
    """What is free on a cluster may fill neither a node nor several alike."""
    space = SearchSpace(
        LARGE.architecture, Question(workload=LONG, layout=ONE_GPU), Offer(device=LARGE.device)
    )

    (found,) = list_no_layout_reasons(space, 4, frozenset({1, 2}))

    assert (found.num_gpus, found.reason) == (3, "no nodes have 3 GPUs free, equally many on each")

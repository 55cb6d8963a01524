"""What a search may vary: what the request fixes is kept to the letter."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Checkpointing, TrainWorkload
from service.planner.space import SEARCHABLE, Limits, Question, configs, larger_batches, sizes
from tests.unit.planner.builders import CHAT, ONE_GPU, SHORT, ZERO_3


def _batches(question: Question, num_gpus: int) -> set[tuple[int, int]]:
    found = [workload for workload, _ in configs(question, num_gpus)]
    return {(w.micro_batch_size, w.gradient_accumulation_steps) for w in found if isinstance(w, TrainWorkload)}


def test_sizes_are_any_number_within_a_node_and_then_whole_nodes() -> None:
    """1 to 8, 16, 24 … up to the limit."""
    question = Question(workload=SHORT, layout=ONE_GPU, limits=Limits(max_gpus=32))

    assert sizes(question) == (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32)


@given(per_node=st.integers(1, 16), most=st.integers(1, 200))
def test_sizes_ascend_within_the_limit(per_node: int, most: int) -> None:
    """No size is above the limit, none is given twice, beyond a node all are whole nodes."""
    found = sizes(Question(workload=SHORT, layout=Layout(gpus_per_node=per_node), limits=Limits(max_gpus=most)))

    assert list(found) == sorted(set(found))
    assert all(size <= most and (size <= per_node or size % per_node == 0) for size in found)
    assert set(range(1, min(per_node, most) + 1)) <= set(found)


def test_sizes_leave_room_for_what_splits_the_model() -> None:
    """Ranks that hold one replica together are never torn apart."""
    question = Question(workload=SHORT, layout=Layout(tensor_parallel=3), limits=Limits(max_gpus=48))

    assert sizes(question) == (3, 6, 24, 48)


@pytest.mark.parametrize(("workload", "fixed"), [(SHORT, frozenset({"data_parallel"})), (CHAT, frozenset[str]())])
def test_a_fixed_number_is_the_only_size(workload: TrainWorkload, fixed: frozenset[str]) -> None:
    """Fixed ranks, and a serving replica, have one size."""
    assert sizes(Question(workload=workload, layout=Layout(data_parallel=3), fixed=fixed)) == (3,)


def test_everything_open_is_replicas_and_three_stages_each_with_and_without_recomputing() -> None:
    """Eight configurations at the smallest micro batch."""
    found = list(configs(Question(workload=replace(SHORT, micro_batch_size=4), layout=ONE_GPU), 8))

    stages = [(layout.sharding, layout.zero_stage) for _, layout in found]
    assert len(found) == len(set(found)) == 8
    assert set(stages) == {(Sharding.DDP, 0), *((Sharding.DEEPSPEED, stage) for stage in (1, 2, 3))}
    assert {layout.data_parallel for _, layout in found} == {8}
    assert all(isinstance(workload, TrainWorkload) and workload.micro_batch_size == 1 for workload, _ in found)


def test_on_one_rank_there_is_nothing_to_shard() -> None:
    """One GPU has plain configurations only."""
    assert {layout for _, layout in configs(Question(workload=SHORT, layout=ONE_GPU), 1)} == {ONE_GPU}


def test_everything_fixed_leaves_the_request_as_it_is() -> None:
    """Not one field is touched."""
    workload = replace(SHORT, micro_batch_size=4, activation_checkpointing=Checkpointing.FULL)

    assert list(configs(Question(workload=workload, layout=ZERO_3, fixed=SEARCHABLE), 8)) == [(workload, ZERO_3)]


@pytest.mark.parametrize(
    ("sharding", "stage", "expected"),
    [
        (Sharding.DEEPSPEED, 0, {0, 1, 2, 3}),
        (Sharding.MEGATRON, 0, {0, 1}),
        (Sharding.FSDP2, 3, {3}),
        (Sharding.DDP, 0, {0}),
    ],
)
def test_who_shards_is_kept_and_how_far_is_searched(sharding: Sharding, stage: int, expected: set[int]) -> None:
    """Each has its own stages."""
    layout = Layout(sharding=sharding, zero_stage=stage)
    found = [placed for _, placed in configs(Question(workload=SHORT, layout=layout, fixed=frozenset({"sharding"})), 8)]

    assert {placed.zero_stage for placed in found} == expected
    assert {placed.sharding for placed in found} == {sharding}


@pytest.mark.parametrize(
    ("fixed", "num_gpus", "expected"),
    [
        (frozenset[str](), 8, {(1, 8)}),
        (frozenset[str](), 3, set[tuple[int, int]]()),
        (frozenset({"micro_batch_size"}), 8, {(4, 2)}),
        (frozenset({"micro_batch_size"}), 32, set[tuple[int, int]]()),
        (frozenset({"gradient_accumulation_steps"}), 8, {(4, 2)}),
        (frozenset({"micro_batch_size", "gradient_accumulation_steps"}), 8, {(4, 2)}),
        (frozenset({"micro_batch_size", "gradient_accumulation_steps"}), 4, set[tuple[int, int]]()),
    ],
)
def test_a_global_batch_is_met_exactly_or_not_at_all(
    fixed: frozenset[str], num_gpus: int, expected: set[tuple[int, int]]
) -> None:
    """Micro batch x accumulation x ranks is 64, whichever of them is fixed."""
    workload = replace(SHORT, micro_batch_size=4, gradient_accumulation_steps=2)
    question = Question(workload=workload, layout=ONE_GPU, fixed=fixed, limits=Limits(global_batch_size=64))

    assert _batches(question, num_gpus) == expected


def test_larger_batches_keep_a_global_batch() -> None:
    """Twice the micro batch is half the accumulation, until that is odd."""
    question = Question(workload=SHORT, layout=ONE_GPU, limits=Limits(global_batch_size=12))
    (smallest, *_) = configs(question, 1)

    grown = [workload for workload, _ in larger_batches(question, smallest)]

    assert [(w.micro_batch_size, w.gradient_accumulation_steps) for w in grown if isinstance(w, TrainWorkload)] == [
        (2, 6),
        (4, 3),
    ]


def test_a_fixed_micro_batch_does_not_grow() -> None:
    """Neither does a serving workload."""
    fixed = Question(workload=SHORT, layout=ONE_GPU, fixed=frozenset({"micro_batch_size"}))

    assert list(larger_batches(fixed, (SHORT, ONE_GPU))) == []
    assert list(larger_batches(Question(workload=CHAT, layout=ONE_GPU), (CHAT, ONE_GPU))) == []


def test_limits_that_make_no_sense_are_refused() -> None:
    """Each names its field; a confidence that the intervals lack is not modelled."""
    with pytest.raises(InvalidInputError, match="max_gpus is 0"):
        Limits(max_gpus=0)
    with pytest.raises(InvalidInputError, match="global_batch_size is 0"):
        Limits(global_batch_size=0)
    with pytest.raises(NotModelledError, match=r"confidence 0\.5"):
        Limits(confidence=0.5)

"""What a search may vary: what the request fixes is kept to the letter."""

from dataclasses import replace

import pytest

from service.estimator.errors import InvalidInputError, NotModelledError
from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Checkpointing, TrainWorkload
from service.planner.space import SEARCHABLE, Limits, Question, configs
from tests.unit.planner.builders import ONE_GPU, SHORT, ZERO_3


def _batches(question: Question, num_gpus: int) -> set[tuple[int, int]]:
    found = [workload for workload, _ in configs(question, num_gpus)]
    return {(w.micro_batch_size, w.gradient_accumulation_steps) for w in found if isinstance(w, TrainWorkload)}


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


def test_limits_that_make_no_sense_are_refused() -> None:
    """Each names its field; a confidence that the intervals lack is not modelled."""
    with pytest.raises(InvalidInputError, match="max_gpus is 0"):
        Limits(max_gpus=0)
    with pytest.raises(InvalidInputError, match="global_batch_size is 0"):
        Limits(global_batch_size=0)
    with pytest.raises(NotModelledError, match=r"confidence 0\.5"):
        Limits(confidence=0.5)

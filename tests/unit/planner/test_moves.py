"""Single steps towards less memory: taken only where they change something, in small enough strides."""

from dataclasses import replace

import pytest

from service.estimator.layout import Layout, Sharding
from service.estimator.workload import Attention, Checkpointing, ServeWorkload, TrainWorkload
from service.planner import moves
from service.planner.moves import MOVES, Config, Move
from tests.unit.planner.builders import ADAPTERS, CHAT, ONE_GPU, SHORT, ZERO_3

FRUGAL = replace(ADAPTERS, optimizer="adamw_fused", activation_checkpointing=Checkpointing.FULL)


@pytest.mark.parametrize("move", [move for move in MOVES if move is not moves.more_ranks])
def test_what_is_frugal_already_is_left_alone(move: Move) -> None:
    """No step is offered that was taken before."""
    assert list(move((FRUGAL, ZERO_3))) == []


@pytest.mark.parametrize(
    "config", [(SHORT, ZERO_3), (CHAT, ONE_GPU), (replace(SHORT, micro_batch_size=8), Layout(data_parallel=4))]
)
@pytest.mark.parametrize("move", MOVES)
def test_no_step_stands_still(move: Move, config: Config) -> None:
    """Every configuration that a step leads to is another one."""
    assert all(offered != config for offered in move(config))


def test_smaller_micro_batches_keep_the_global_batch() -> None:
    """What is halved is accumulated twice."""
    config = (replace(SHORT, micro_batch_size=12, gradient_accumulation_steps=2), ONE_GPU)

    sizes = [
        (w.micro_batch_size, w.gradient_accumulation_steps)
        for w, _ in moves.smaller_micro_batch(config)
        if isinstance(w, TrainWorkload)
    ]

    assert sizes == [(6, 4), (3, 8)]


def test_stages_rise_over_the_ranks_that_are_there() -> None:
    """From replicas to stage 3, and nothing on a single rank or under FSDP."""
    offered = [(layout.sharding, layout.zero_stage) for _, layout in moves.higher_zero_stage((SHORT, Layout(data_parallel=2)))]

    assert offered == [(Sharding.DEEPSPEED, 1), (Sharding.DEEPSPEED, 2), (Sharding.DEEPSPEED, 3)]
    assert list(moves.higher_zero_stage((SHORT, ONE_GPU))) == []
    assert list(moves.higher_zero_stage((SHORT, Layout(data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2)))) == []


def test_more_ranks_double_and_shard_everything() -> None:
    """Replicas alone would save nothing, so the states are sharded; FSDP stays FSDP."""
    ranks = [(layout.data_parallel, layout.zero_stage) for _, layout in moves.more_ranks((SHORT, ONE_GPU))]
    fsdp = {layout.sharding for _, layout in moves.more_ranks((SHORT, Layout(zero_stage=3, sharding=Sharding.FSDP2)))}

    assert ranks == [(2**power, 3) for power in range(1, 11)]
    assert fsdp == {Sharding.FSDP2}


def test_eager_attention_gives_way_to_flash() -> None:
    """A kernel without scores is offered for training and serving alike."""
    offered = [
        list(moves.flash_attention((replace(workload, attention=Attention.EAGER), ONE_GPU))) for workload in (SHORT, CHAT)
    ]

    assert [workload.attention for ((workload, _),) in offered] == [Attention.FLASH, Attention.FLASH]


@pytest.mark.parametrize("num_sequences", [1, 2, 5, 16, 100])
def test_fewer_sequences_descend_and_never_reach_none(num_sequences: int) -> None:
    """A replica serves at least one sequence."""
    config = (ServeWorkload(num_sequences=num_sequences, prompt_tokens=8), ONE_GPU)

    left = [workload.num_sequences for workload, _ in moves.fewer_sequences(config) if isinstance(workload, ServeWorkload)]

    assert left == sorted(set(left), reverse=True)
    assert all(0 < value < num_sequences for value in left)
    assert bool(left) == (num_sequences > 1)

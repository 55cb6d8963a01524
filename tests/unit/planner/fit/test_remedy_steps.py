"""Single steps towards less memory: taken only where they change something, in small enough
strides.
"""

from dataclasses import replace

import pytest

from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.workload import (
    Attention,
    Checkpointing,
    Engine,
    Framework,
    Method,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.fit import remedy_steps as moves
from service.planner.fit.remedy_order import REMEDY_STEPS
from service.planner.fit.remedy_steps import Config, RemedyStep
from tests.unit.planner.builders import ADAPTERS, CHAT, ONE_GPU, SHORT, ZERO_3

FRUGAL = replace(
    ADAPTERS,
    method=Method.QLORA,
    optimizer="paged_adamw_8bit",
    loss=Loss.FUSED_LINEAR,
    offload=Offload(optimizer=OffloadTarget.CPU, parameters=OffloadTarget.CPU),
    activation_checkpointing=Checkpointing.FULL,
)
MEGATRON = replace(SHORT, framework=Framework.MEGATRON)


@pytest.mark.parametrize(
    "move", [move for move in REMEDY_STEPS if move is not moves.add_data_parallel_ranks]
)
def test_what_is_frugal_already_is_left_alone(move: RemedyStep) -> None:
    """No step is offered that was taken before."""
    assert list(move((FRUGAL, ZERO_3))) == []


@pytest.mark.parametrize(
    "config",
    [
        (SHORT, ZERO_3),
        (CHAT, ONE_GPU),
        (replace(SHORT, micro_batch_size=8), Layout(data_parallel=4)),
    ],
)
@pytest.mark.parametrize("move", REMEDY_STEPS)
def test_no_step_stands_still(move: RemedyStep, config: Config) -> None:
    """Every configuration that a step leads to is another one."""
    assert all(offered != config for offered in move(config))


def test_smaller_micro_batches_keep_the_global_batch() -> None:
    """What is halved is accumulated twice."""
    config = (replace(SHORT, micro_batch_size=12, gradient_accumulation_steps=2), ONE_GPU)

    sizes = [
        (w.micro_batch_size, w.gradient_accumulation_steps)
        for w, _ in moves.halve_micro_batch(config)
        if isinstance(w, TrainWorkload)
    ]

    assert sizes == [(6, 4), (3, 8)]


def test_stages_rise_over_the_ranks_that_are_there() -> None:
    """From replicas to stage 3, and nothing on a single rank or under FSDP."""
    offered = [
        (layout.sharding, layout.zero_stage)
        for _, layout in moves.raise_zero_stage((SHORT, Layout(data_parallel=2)))
    ]

    assert offered == [(Sharding.DEEPSPEED, 1), (Sharding.DEEPSPEED, 2), (Sharding.DEEPSPEED, 3)]
    assert list(moves.raise_zero_stage((SHORT, ONE_GPU))) == []
    assert (
        list(
            moves.raise_zero_stage(
                (SHORT, Layout(data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2))
            ),
        )
        == []
    )


def test_more_ranks_double_and_shard_everything() -> None:
    """Replicas alone would save nothing, so the states are sharded; FSDP stays FSDP."""
    ranks = [
        (layout.data_parallel, layout.zero_stage)
        for _, layout in moves.add_data_parallel_ranks((SHORT, ONE_GPU))
    ]
    fsdp = {
        layout.sharding
        for _, layout in moves.add_data_parallel_ranks(
            (SHORT, Layout(zero_stage=3, sharding=Sharding.FSDP2))
        )
    }

    assert ranks == [(2**power, 3) for power in range(1, 11)]
    assert fsdp == {Sharding.FSDP2}


def test_eager_attention_gives_way_to_flash() -> None:
    """A kernel without scores is offered for training and serving alike."""
    offered = [
        list(moves.use_flash_attention((replace(workload, attention=Attention.EAGER), ONE_GPU)))
        for workload in (SHORT, CHAT)
    ]

    assert [workload.attention for ((workload, _),) in offered] == [
        Attention.FLASH,
        Attention.FLASH,
    ]


def test_every_second_layer_gives_way_to_every_layer() -> None:
    """Who recomputes each second layer is offered to recompute all of them."""
    every = replace(SHORT, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=2)

    offered = list(moves.use_full_checkpointing((every, ONE_GPU)))

    assert offered == [(replace(SHORT, activation_checkpointing=Checkpointing.FULL), ONE_GPU)]


@pytest.mark.parametrize("num_sequences", [1, 2, 5, 16, 100])
def test_fewer_sequences_descend_and_never_reach_none(num_sequences: int) -> None:
    """A replica serves at least one sequence."""
    config = (ServeWorkload(num_sequences=num_sequences, prompt_tokens=8), ONE_GPU)

    left = [
        workload.num_sequences
        for workload, _ in moves.reduce_sequences(config)
        if isinstance(workload, ServeWorkload)
    ]

    assert left == sorted(set(left), reverse=True)
    assert all(0 < value < num_sequences for value in left)
    assert bool(left) == (num_sequences > 1)


ENGINE = replace(CHAT, engine=Engine.VLLM)


def test_a_replica_is_split_within_a_node() -> None:
    """Twice the ranks, and twice again; llama.cpp and training with transformers are left alone."""
    for workload in (ENGINE, CHAT, MEGATRON):
        ranks = [
            layout.tensor_parallel
            for _, layout in moves.split_replica((workload, Layout(gpus_per_node=8)))
        ]
        assert ranks == [2, 4, 8]
    assert list(moves.split_replica((replace(CHAT, engine=Engine.LLAMA_CPP), ONE_GPU))) == []
    assert list(moves.split_replica((SHORT, ONE_GPU))) == []


def test_megatron_splits_the_sequence_with_its_layers() -> None:
    """Tensor-parallel ranks share activations outside of products as well; serving engines do not
    say how.
    """
    assert {layout.sequence_parallel for _, layout in moves.split_replica((MEGATRON, ONE_GPU))} == {
        True
    }
    assert {layout.sequence_parallel for _, layout in moves.split_replica((ENGINE, ONE_GPU))} == {
        False
    }


def test_megatron_takes_more_stages_and_shards_its_optimizer() -> None:
    """Pipeline stages double; over data-parallel ranks the distributed optimizer is what shards."""
    stages = [
        layout.pipeline_parallel for _, layout in moves.add_pipeline_stages((MEGATRON, ONE_GPU))
    ]
    ranks = next(layout for _, layout in moves.add_data_parallel_ranks((MEGATRON, ONE_GPU)))

    assert stages == [2, 4, 8, 16]
    assert (ranks.sharding, ranks.zero_stage, ranks.data_parallel) == (Sharding.MEGATRON, 1, 2)
    assert list(moves.add_pipeline_stages((SHORT, ONE_GPU))) == []


@pytest.mark.parametrize("engine", Engine)
def test_each_engine_is_offered_formats_of_its_own(engine: Engine) -> None:
    """Two formats, and none where the weights are packed already."""
    offered = [
        config for config, _ in moves.quantize_weights((replace(CHAT, engine=engine), ONE_GPU))
    ]

    assert len(offered) == 2
    assert list(moves.quantize_weights((offered[0], ONE_GPU))) == []


def test_the_optimizer_leaves_before_the_parameters() -> None:
    """DeepSpeed moves the states alone at stage 2, and everything at stage 3; FSDP2 moves all of it
    or nothing.
    """
    alone = [
        (w.offload, layout.sharding, layout.zero_stage)  # type: ignore[union-attr]  # trains
        for w, layout in moves.offload_states((SHORT, ONE_GPU))
    ]
    fsdp = list(moves.offload_states((SHORT, Layout(zero_stage=3, sharding=Sharding.FSDP2))))

    cpu = OffloadTarget.CPU
    assert alone == [
        (Offload(optimizer=cpu), Sharding.DEEPSPEED, 2),
        (Offload(optimizer=cpu, parameters=cpu), Sharding.DEEPSPEED, 3),
    ]
    assert [layout.sharding for _, layout in fsdp] == [Sharding.FSDP2]


def test_sequences_are_cut_to_what_is_asked() -> None:
    """An engine that accepts no longer sequence than 512 tokens needs room for no longer one."""
    lengths = [workload.max_model_len for workload, _ in moves.shorten_sequences((ENGINE, ONE_GPU))]  # type: ignore[union-attr]  # serves

    assert lengths == [512]
    assert list(moves.shorten_sequences((replace(ENGINE, max_model_len=512), ONE_GPU))) == []


def test_a_cache_of_8_bits_is_offered_once() -> None:
    """An fp8 cache stays as it is."""
    ((workload, _),) = moves.use_fp8_cache((ENGINE, ONE_GPU))

    assert list(moves.use_fp8_cache((workload, ONE_GPU))) == []


def test_far_fewer_sequences_are_offered_by_halves() -> None:
    """Below a sixteenth each step serves half as many."""
    asked = replace(CHAT, num_sequences=4096)
    offered = [workload.num_sequences for workload, _ in moves.reduce_sequences((asked, ONE_GPU))]

    assert offered[-8:] == [128, 64, 32, 16, 8, 4, 2, 1]

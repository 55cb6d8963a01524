"""Single steps towards less memory: taken only where they change something, in small enough
strides.
"""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.registry import get_backend
from service.estimator.values.layout import ContextMethod, Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.workload import (
    Allocator,
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
from service.planner.fit.evaluator import Config
from service.planner.remedies import layout_steps, serving_steps, training_steps
from service.planner.remedies.steps import GRADED_STEPS, STEPS, RemedyStep
from tests.unit.planner.builders import ADAPTERS, CHAT, ONE_GPU, SHORT, ZERO_3

FRUGAL = replace(
    ADAPTERS,
    method=Method.QLORA,
    optimizer="paged_adamw_8bit",
    loss=Loss.FUSED_LINEAR,
    offload=Offload(
        optimizer=OffloadTarget.CPU, parameters=OffloadTarget.CPU, activations=OffloadTarget.CPU
    ),
    activation_checkpointing=Checkpointing.FULL,
    allocator=Allocator.EXPANDABLE_SEGMENTS,
)
MEGATRON = replace(SHORT, framework=Framework.MEGATRON)


@pytest.mark.parametrize(
    "move",
    [
        move
        for move in (*STEPS, *GRADED_STEPS)
        if move not in {layout_steps.add_data_parallel_ranks, layout_steps.share_sequences}
    ],
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
@pytest.mark.parametrize("move", [*STEPS, *GRADED_STEPS])
def test_no_step_stands_still(move: RemedyStep, config: Config) -> None:
    """Every configuration that a step leads to is another one."""
    assert all(offered != config for offered in move(config))


def test_smaller_micro_batches_keep_the_global_batch() -> None:
    """What is halved is accumulated twice."""
    config = (replace(SHORT, micro_batch_size=12, gradient_accumulation_steps=2), ONE_GPU)

    sizes = [
        (w.micro_batch_size, w.gradient_accumulation_steps)
        for w, _ in training_steps.halve_micro_batch(config)
        if isinstance(w, TrainWorkload)
    ]

    assert sizes == [(6, 4), (3, 8)]


def test_stages_rise_over_the_ranks_that_are_there() -> None:
    """From replicas to stage 3, and nothing on a single rank or under FSDP."""
    offered = [
        (layout.sharding, layout.zero_stage)
        for _, layout in layout_steps.raise_zero_stage((SHORT, Layout(data_parallel=2)))
    ]

    assert offered == [(Sharding.DEEPSPEED, 1), (Sharding.DEEPSPEED, 2), (Sharding.DEEPSPEED, 3)]
    assert list(layout_steps.raise_zero_stage((SHORT, ONE_GPU))) == []
    assert (
        list(
            layout_steps.raise_zero_stage(
                (SHORT, Layout(data_parallel=2, zero_stage=3, sharding=Sharding.FSDP2))
            ),
        )
        == []
    )


def test_more_ranks_double_and_shard_everything() -> None:
    """Replicas alone would save nothing, so the states are sharded; FSDP stays FSDP."""
    ranks = [
        (layout.data_parallel, layout.zero_stage)
        for _, layout in layout_steps.add_data_parallel_ranks((SHORT, ONE_GPU))
    ]
    fsdp = {
        layout.sharding
        for _, layout in layout_steps.add_data_parallel_ranks(
            (SHORT, Layout(zero_stage=3, sharding=Sharding.FSDP2))
        )
    }

    assert ranks == [(2**power, 3) for power in range(1, 11)]
    assert fsdp == {Sharding.FSDP2}


@pytest.mark.parametrize(
    ("workload", "layout", "sharding", "method"),
    [
        (SHORT, ONE_GPU, Sharding.FSDP2, ContextMethod.RING),
        (SHORT, ZERO_3, Sharding.DEEPSPEED, ContextMethod.ULYSSES),
        (MEGATRON, ONE_GPU, Sharding.MEGATRON, ContextMethod.RING),
    ],
)
def test_sequences_are_shared_as_each_library_shares_them(
    workload: TrainWorkload, layout: Layout, sharding: Sharding, method: ContextMethod
) -> None:
    """FSDP2 and Megatron pass keys and values on, DeepSpeed exchanges heads."""
    offered = [shared for _, shared in layout_steps.share_sequences((workload, layout))]

    assert [shared.context_parallel for shared in offered] == [2, 4, 8, 16, 32, 64]
    assert {(shared.sharding, shared.context_parallel_method) for shared in offered} == {
        (sharding, method)
    }
    assert list(layout_steps.share_sequences((CHAT, ONE_GPU))) == []


def test_eager_attention_gives_way_to_flash() -> None:
    """A kernel without scores is offered for training and serving alike."""
    offered = [
        list(
            training_steps.use_flash_attention(
                (replace(workload, attention=Attention.EAGER), ONE_GPU)
            )
        )
        for workload in (SHORT, CHAT)
    ]

    assert [workload.attention for ((workload, _),) in offered] == [
        Attention.FLASH,
        Attention.FLASH,
    ]


def test_every_second_layer_gives_way_to_every_layer() -> None:
    """Who recomputes each second layer is offered to recompute all of them."""
    every = replace(SHORT, activation_checkpointing=Checkpointing.SELECTIVE, selective_every=2)

    offered = list(training_steps.use_full_checkpointing((every, ONE_GPU)))

    assert offered == [(replace(SHORT, activation_checkpointing=Checkpointing.FULL), ONE_GPU)]


@pytest.mark.parametrize("num_sequences", [1, 2, 5, 16, 100])
def test_fewer_sequences_descend_and_never_reach_none(num_sequences: int) -> None:
    """A replica serves at least one sequence."""
    config = (ServeWorkload(num_sequences=num_sequences, prompt_tokens=8), ONE_GPU)

    left = [
        workload.num_sequences
        for workload, _ in serving_steps.reduce_sequences(config)
        if isinstance(workload, ServeWorkload)
    ]

    assert left == sorted(set(left), reverse=True)
    assert all(0 < value < num_sequences for value in left)
    assert bool(left) == (num_sequences > 1)


ENGINE = replace(CHAT, engine=Engine.VLLM)
GPT2 = load_architecture(resolve_model("gpt2"))


def test_a_replica_is_split_within_a_node() -> None:
    """Twice the ranks, and twice again; llama.cpp and training with transformers are left alone."""
    for workload in (ENGINE, CHAT, MEGATRON):
        ranks = [
            layout.tensor_parallel
            for _, layout in layout_steps.split_replica((workload, Layout(gpus_per_node=8)))
        ]
        assert ranks == [2, 4, 8]
    assert list(layout_steps.split_replica((replace(CHAT, engine=Engine.LLAMA_CPP), ONE_GPU))) == []
    assert list(layout_steps.split_replica((SHORT, ONE_GPU))) == []


def test_megatron_splits_the_sequence_with_its_layers() -> None:
    """Tensor-parallel ranks share activations outside of products as well; serving engines do not
    say how.
    """
    assert {
        layout.sequence_parallel for _, layout in layout_steps.split_replica((MEGATRON, ONE_GPU))
    } == {True}
    assert {
        layout.sequence_parallel for _, layout in layout_steps.split_replica((ENGINE, ONE_GPU))
    } == {False}


def test_megatron_takes_more_stages_and_shards_its_optimizer() -> None:
    """Pipeline stages double; over data-parallel ranks the distributed optimizer is what shards."""
    stages = [
        layout.pipeline_parallel
        for _, layout in layout_steps.add_pipeline_stages((MEGATRON, ONE_GPU))
    ]
    ranks = next(layout for _, layout in layout_steps.add_data_parallel_ranks((MEGATRON, ONE_GPU)))

    assert stages == [2, 4, 8, 16]
    assert (ranks.sharding, ranks.zero_stage, ranks.data_parallel) == (Sharding.MEGATRON, 1, 2)
    assert list(layout_steps.add_pipeline_stages((SHORT, ONE_GPU))) == []


@pytest.mark.parametrize("engine", Engine)
def test_each_engine_is_offered_formats_of_its_own(engine: Engine) -> None:
    """Those that it reads, and none where the weights are packed already."""
    offered = [
        config
        for config, _ in serving_steps.quantize_weights((replace(CHAT, engine=engine), ONE_GPU))
    ]

    formats = get_backend(engine).weight_formats
    assert tuple(each.quantization for each in offered) == formats  # type: ignore[union-attr]  # serves
    assert formats
    assert list(serving_steps.quantize_weights((offered[0], ONE_GPU))) == []


def test_the_optimizer_leaves_before_the_parameters() -> None:
    """DeepSpeed moves the states alone at stage 2, and everything at stage 3; FSDP2 moves all of it
    or nothing.
    """
    alone = [
        (w.offload, layout.sharding, layout.zero_stage)  # type: ignore[union-attr]  # trains
        for w, layout in training_steps.offload_states((SHORT, ONE_GPU))
    ]
    fsdp = list(
        training_steps.offload_states((SHORT, Layout(zero_stage=3, sharding=Sharding.FSDP2)))
    )

    cpu = OffloadTarget.CPU
    assert alone == [
        (Offload(optimizer=cpu), Sharding.DEEPSPEED, 2),
        (Offload(optimizer=cpu, parameters=cpu), Sharding.DEEPSPEED, 3),
    ]
    assert [layout.sharding for _, layout in fsdp] == [Sharding.FSDP2]


def test_sequences_are_cut_to_what_is_asked() -> None:
    """An engine that accepts no longer sequence than 512 tokens needs room for no longer one."""
    offered = list(serving_steps.shorten_sequences(GPT2, (ENGINE, ONE_GPU)))
    lengths = [workload.max_model_len for workload, _ in offered]  # type: ignore[union-attr]  # serves

    assert lengths == [512]
    shortest = (replace(ENGINE, max_model_len=512), ONE_GPU)
    assert list(serving_steps.shorten_sequences(GPT2, shortest)) == []


def test_contexts_of_slots_are_cut_where_a_length_is_said() -> None:
    """llama.cpp's are as long as the request's unless a longer one is said."""
    by_request = (replace(CHAT, engine=Engine.LLAMA_CPP), ONE_GPU)
    said = (replace(CHAT, engine=Engine.LLAMA_CPP, max_model_len=2048), ONE_GPU)

    offered = list(serving_steps.shorten_sequences(GPT2, said))

    assert [workload.max_model_len for workload, _ in offered] == [1024, 512]  # type: ignore[union-attr]  # serves
    assert list(serving_steps.shorten_sequences(GPT2, by_request)) == []


def test_a_cache_of_8_bits_is_offered_once() -> None:
    """An fp8 cache stays as it is."""
    ((workload, _),) = serving_steps.use_fp8_cache((ENGINE, ONE_GPU))

    assert list(serving_steps.use_fp8_cache((workload, ONE_GPU))) == []


def test_far_fewer_sequences_are_offered_by_halves() -> None:
    """Below a sixteenth each step serves half as many."""
    asked = replace(CHAT, num_sequences=4096)
    offered = [
        workload.num_sequences for workload, _ in serving_steps.reduce_sequences((asked, ONE_GPU))
    ]

    assert offered[-8:] == [128, 64, 32, 16, 8, 4, 2, 1]

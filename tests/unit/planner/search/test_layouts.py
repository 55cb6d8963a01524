"""Every layout of a search is legal for the model, and keeps what the request fixes."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.catalog.models import load_architecture, resolve_model
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Checkpointing,
    Engine,
    Framework,
    Offload,
    OffloadTarget,
    ServeWorkload,
    TrainWorkload,
    Workload,
)
from service.planner.search.layouts import SearchSpace
from service.planner.search.offer import Offer
from service.planner.search.search_space import Limits, Question
from tests.unit.planner.builders import CHAT, LONG, ONE_GPU, SHORT, a_device

LLAMA = load_architecture(resolve_model("llama-2-70b"))
MIXTRAL = load_architecture(resolve_model("mixtral-8x7b"))


def a_space(
    workload: Workload = LONG,
    layout: Layout = ONE_GPU,
    *,
    island: int | None = None,
    **rest: Any,  # noqa: ANN401 - each word has its own type
) -> SearchSpace:
    """Return the space of a question about a 70B model."""
    offer = Offer(device=a_device(80 * 2**30), island_size=island)
    return SearchSpace(LLAMA, Question(workload=workload, layout=layout, **rest), offer)


def test_counts_are_any_number_within_a_node_and_then_whole_nodes() -> None:
    """1 to 8, 16, 24 … up to the limit."""
    assert a_space(limits=Limits(max_gpus=32)).counts == (1, 2, 3, 4, 5, 6, 7, 8, 16, 24, 32)
    assert a_space(limits=Limits(max_gpus=32, max_nodes=2)).counts[-1] == 16


@given(per_node=st.integers(1, 16), most=st.integers(1, 200))
def test_counts_ascend_within_the_limit(per_node: int, most: int) -> None:
    """No number is above the limit, none is given twice, beyond a node all are whole nodes."""
    found = a_space(layout=Layout(gpus_per_node=per_node), limits=Limits(max_gpus=most)).counts

    assert list(found) == sorted(set(found))
    assert all(count <= most and (count <= per_node or count % per_node == 0) for count in found)
    assert set(range(1, min(per_node, most) + 1)) <= set(found)


def test_ranks_that_hold_one_replica_are_never_torn_apart() -> None:
    """With a pipeline of 5 stages only multiples of 5 are tried."""
    fixed = frozenset({"pipeline_parallel"})
    found = a_space(
        layout=Layout(pipeline_parallel=5), fixed=fixed, limits=Limits(max_gpus=48)
    ).counts

    assert found == (5, 40)


@pytest.mark.parametrize("num_gpus", [8, 16, 64])
def test_layouts_fill_the_gpus_and_divide_the_model(num_gpus: int) -> None:
    """Heads divide over tensor-parallel ranks, layers over stages, sequences over context-parallel
    ranks.
    """
    for slot in a_space().list_options(num_gpus):
        layout = slot.layout
        assert layout.num_gpus == num_gpus
        assert LLAMA.spec.num_attention_heads % layout.tensor_parallel == 0
        counts = layout.pipeline_split.pipeline_layers
        assert (sum(counts) if counts else LLAMA.num_hidden_layers) == LLAMA.num_hidden_layers
        assert counts is not None or LLAMA.num_hidden_layers % layout.pipeline_parallel == 0
        assert (
            LONG.sequence_length % (2 * layout.context_parallel) == 0
            or layout.context_parallel == 1
        )
        assert layout.tensor_parallel <= layout.gpus_per_node


def test_every_layout_is_there_once() -> None:
    """No two are alike, and every framework has some."""
    slots = a_space().list_options(16)
    found = {(slot.strategy.name, slot.layout, slot.offload) for slot in slots}

    assert len(found) == len(slots)
    assert {slot.strategy.name for slot in slots} == {
        "ddp",
        "deepspeed",
        "fsdp1",
        "fsdp2",
        "torchtitan",
        "megatron",
    }


def test_tensor_parallel_ranks_stay_on_an_island() -> None:
    """An island of four holds four ranks at most; a request that says eight has eight."""
    assert max(slot.layout.tensor_parallel for slot in a_space(island=4).list_options(16)) == 4
    said = a_space(layout=Layout(tensor_parallel=8), island=4, fixed=frozenset({"tensor_parallel"}))
    assert {slot.layout.tensor_parallel for slot in said.list_options(16)} == {8}


def test_experts_are_spread_where_there_are_any() -> None:
    """The degrees of a mixture divide its experts, and a dense model has one."""
    question = Question(workload=LONG, layout=ONE_GPU)
    mixture = SearchSpace(MIXTRAL, question, Offer(device=a_device(2**36)))

    assert {slot.layout.expert_parallel for slot in mixture.list_options(16)} == {1, 2, 4, 8}
    assert {slot.layout.expert_parallel for slot in a_space().list_options(16)} == {1}


def test_on_one_rank_there_is_nothing_to_shard() -> None:
    """One GPU has one layout in each framework."""
    assert [
        (slot.strategy.framework, slot.layout.num_gpus) for slot in a_space().list_options(1)
    ] == [
        (framework, 1)
        for framework in (Framework.TRANSFORMERS, Framework.TORCHTITAN, Framework.MEGATRON)
    ]


def test_what_the_request_fixes_is_kept_to_the_letter() -> None:
    """Stage, sharding, framework, degrees and batch stay as they were asked."""
    workload = replace(
        LONG,
        micro_batch_size=4,
        activation_checkpointing=Checkpointing.FULL,
        gradient_accumulation_steps=2,
    )
    layout = Layout(data_parallel=8, zero_stage=3, sharding=Sharding.DEEPSPEED)
    words = (
        "data_parallel",
        "zero_stage",
        "sharding",
        "framework",
        "tensor_parallel",
        "pipeline_parallel",
    )
    more = ("context_parallel", "expert_parallel", "micro_batch_size", "activation_checkpointing")
    space = a_space(
        workload, layout, fixed=frozenset({*words, *more, "gradient_accumulation_steps"})
    )
    (slot,) = space.list_options(8)

    assert [space.build_config(slot, batch) for batch in space.list_batches(slot)] == [
        (workload, layout)
    ]
    assert space.counts == (8,)


def test_a_request_that_no_way_of_ours_runs_is_remembered_as_refused() -> None:
    """Transformers does not shard like Megatron: no layout is left, and what was asked is kept for
    the refusal.
    """
    layout = Layout(sharding=Sharding.MEGATRON, zero_stage=1)
    space = a_space(SHORT, layout, fixed=frozenset({"sharding", "zero_stage", "framework"}))

    assert not space.list_options(4)
    assert space.first_refused is not None
    assert (space.first_refused[1].sharding, space.first_refused[1].zero_stage) == (
        Sharding.MEGATRON,
        1,
    )


@pytest.mark.parametrize(
    "fixed",
    [frozenset[str](), frozenset({"micro_batch_size"}), frozenset({"gradient_accumulation_steps"})],
)
def test_a_global_batch_is_met_exactly(fixed: frozenset[str]) -> None:
    """Micro batch x accumulation x ranks is 64, whichever of them is fixed."""
    workload = replace(LONG, micro_batch_size=2, gradient_accumulation_steps=2)
    space = a_space(workload, fixed=fixed, limits=Limits(global_batch_size=64))
    configs = [
        space.build_config(slot, batch)
        for slot in space.list_options(8)
        for batch in space.list_batches(slot)
    ]

    assert configs
    for found, layout in configs:
        assert isinstance(found, TrainWorkload)
        assert (
            found.micro_batch_size * found.gradient_accumulation_steps * layout.data_parallel == 64
        )


@pytest.mark.parametrize(
    ("changes", "shardings", "stages"),
    [
        ({}, {Sharding.DDP}, {0}),
        ({"offload": Offload(optimizer=OffloadTarget.CPU)}, {Sharding.DEEPSPEED}, {1, 2, 3}),
        (
            {"offload": Offload(optimizer=OffloadTarget.CPU, parameters=OffloadTarget.CPU)},
            {Sharding.DEEPSPEED},
            {3},
        ),
    ],
)
def test_one_gpu_runs_the_first_strategy_that_is_legal_there(
    changes: dict[str, Any], shardings: set[Sharding], stages: set[int]
) -> None:
    """What no replica of DDP can do is no reason to ask for a second GPU."""
    workload, fixed = replace(LONG, **changes), frozenset({"framework"})
    options = a_space(workload, fixed=fixed).list_options(1)

    assert {option.layout.sharding for option in options} == shardings
    assert {option.layout.zero_stage for option in options} == stages


def test_rules_of_what_ranks_add_up_to_are_asked_of_each_layout() -> None:
    """1-bit Adam needs several ranks, and a search varies their number."""
    space = a_space(replace(LONG, optimizer="onebit_adam"))

    assert not space.list_options(1)
    assert {option.layout.sharding for option in space.list_options(4)} == {Sharding.DEEPSPEED}


def test_offload_is_tried_only_when_it_is_allowed() -> None:
    """Otherwise the fewest GPUs for anything would be one."""
    closed, opened = a_space(), a_space(allow=frozenset({"offload"}))

    assert {slot.offload for slot in closed.list_options(4)} == {Offload()}
    assert len({slot.offload for slot in opened.list_options(4)}) == 3


def test_replicas_of_an_engine_are_split_by_tensors_and_stages() -> None:
    """Four GPUs are four ranks, four stages, or two of two; as many replicas as were asked."""
    workload = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)
    found = [slot.layout for slot in a_space(workload, Layout(data_parallel=2)).list_options(8)]

    assert [(one.data_parallel, one.tensor_parallel, one.pipeline_parallel) for one in found] == [
        (2, 1, 4),
        (2, 2, 2),
        (2, 4, 1),
    ]


def test_who_serves_with_transformers_splits_tensors_alone() -> None:
    """Its plans of tensor parallelism divide heads over ranks; there are no stages."""
    found = [
        slot.layout for count in a_space(CHAT).counts for slot in a_space(CHAT).list_options(count)
    ]

    assert [one.tensor_parallel for one in found] == [1, 2, 4, 8]
    assert {one.pipeline_parallel for one in found} == {1}

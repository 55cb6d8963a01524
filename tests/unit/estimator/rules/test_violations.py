"""What frameworks and engines can combine, held against what the estimator answers."""

from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.rules.runners import FRAMEWORKS
from service.estimator.rules.violations import Legality, find_violation
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.workload import (
    Engine,
    Framework,
    ServeWorkload,
    TrainWorkload,
)
from tests.unit.planner.samples import model

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
MEGATRON = TrainWorkload(sequence_length=4096, framework=Framework.MEGATRON)
CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)


def test_a_violation_names_the_field_and_its_source() -> None:
    """Three ranks cannot share 32 heads."""
    illegal = find_violation(model("llama-3-8b"), CHAT, Layout(tensor_parallel=3))

    assert illegal is not None
    assert illegal.reason == "tensor_parallel 3 does not divide 32 attention heads"
    assert illegal.field == "layout.tensor_parallel"
    assert "vLLM" in illegal.rule.source


def test_experts_spread_over_all_ranks_or_none() -> None:
    """With expert parallelism an engine's experts stand on tensor x data ranks: not on some of
    them.
    """
    mixtral = Legality(model("mixtral-8x7b"))

    assert mixtral.find_violation(CHAT, Layout(data_parallel=4, expert_parallel=4)) is None
    assert mixtral.find_violation(CHAT, Layout(data_parallel=4, expert_parallel=2)) is not None
    whole = Layout(tensor_parallel=4, data_parallel=2, expert_parallel=8, expert_tensor_parallel=1)
    assert mixtral.find_violation(CHAT, whole) is None
    sliced = mixtral.find_violation(
        CHAT, Layout(tensor_parallel=4, data_parallel=2, expert_parallel=2)
    )
    assert sliced is not None
    assert "tensor_parallel 4 x data_parallel 2" in sliced.reason


def test_interleaved_stages_take_micro_batches_in_groups() -> None:
    """Four stages interleaved twice run 8 micro-batches a step, not 6."""
    layout = Layout(pipeline_parallel=4, virtual_pipeline_stages=2, sharding=Sharding.MEGATRON)
    check = Legality(model("llama-3-8b")).find_violation

    assert check(replace(MEGATRON, gradient_accumulation_steps=8), layout) is None
    refused = check(replace(MEGATRON, gradient_accumulation_steps=6), layout)
    assert refused is not None
    assert refused.field == "workload.gradient_accumulation_steps"


@pytest.mark.parametrize(
    ("framework", "ways"),
    [
        (Framework.MEGATRON, {(Sharding.MEGATRON, 0), (Sharding.MEGATRON, 1)}),
        (Framework.TORCHTITAN, {(Sharding.FSDP2, 3)}),
        (
            Framework.TRANSFORMERS,
            {
                (Sharding.DDP, 0),
                (Sharding.FSDP1, 3),
                (Sharding.FSDP2, 3),
                *((Sharding.DEEPSPEED, stage) for stage in range(4)),
            },
        ),
    ],
)
def test_each_framework_shards_in_its_own_ways(
    framework: Framework, ways: set[tuple[Sharding, int]]
) -> None:
    """Who shards and how far is what a search has to try."""
    assert {
        (option.sharding, stage)
        for option in FRAMEWORKS[framework].sharding_options
        for stage in option.zero_stages
    } == ways


def test_rules_about_experts_are_asked_of_models_that_have_some() -> None:
    """What is dropped for a dense model holds for one with experts: Megatron wants their sequence
    split beside tensors.
    """
    layout = Layout(tensor_parallel=2, sharding=Sharding.MEGATRON)

    assert find_violation(model("llama-3-8b"), MEGATRON, layout) is None
    refused = find_violation(model("mixtral-8x7b"), MEGATRON, layout)
    assert refused is not None
    assert refused.field == "layout.sequence_parallel"
    assert (
        find_violation(model("mixtral-8x7b"), MEGATRON, replace(layout, sequence_parallel=True))
        is None
    )

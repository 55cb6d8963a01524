"""What frameworks and engines can combine, held against what the estimator answers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from service.catalog.gpus import resolve_gpu
from service.estimator.cache import PlanCache
from service.estimator.estimate import estimate
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.result import Detail
from service.estimator.values.workload import (
    Engine,
    Framework,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from service.planner.legality.legal import Legality, find_violation, list_shardings
from tests.unit.planner.legality.samples import Configuration, model, servings, trainings

H100 = resolve_gpu("H100-SXM5-80GB").to_device()
STRICTER = frozenset(
    {
        "layout.sharding",
        "layout.expert_parallel",
        "layout.tensor_parallel",
        "workload.attention",
        "workload.gradient_accumulation_steps",
        "workload.offload.optimizer",
    },
)
"""Fields of rules that a framework has and the estimator does not hold."""
MEGATRON = TrainWorkload(sequence_length=4096, framework=Framework.MEGATRON)
CHAT = ServeWorkload(num_sequences=8, prompt_tokens=512, engine=Engine.VLLM)


def _sampled() -> Iterator[Configuration]:
    yield from trainings(11, 3000)
    yield from servings(12, 1500)


def _answers(configuration: Configuration, plans: PlanCache) -> bool:
    architecture, workload, layout = configuration
    try:
        estimate(
            architecture, workload, layout=layout, device=H100, plans=plans, detail=Detail.NUMBERS
        )
    except EstimatorError:
        return False
    return True


def test_whatever_is_legal_has_an_answer_and_what_is_not_has_none() -> None:
    """The tables and the estimator agree on thousands of configurations, but where a framework is
    known to be stricter.
    """
    plans = PlanCache()
    judged = [(case, find_violation(*case), _answers(case, plans)) for case in _sampled()]

    assert [case for case, illegal, answers in judged if illegal is None and not answers] == []
    assert {
        illegal.field for _, illegal, answers in judged if illegal is not None and answers
    } <= STRICTER
    assert sum(illegal is None for _, illegal, _ in judged) > 300


def test_degrees_are_those_that_the_heads_allow() -> None:
    """64 heads, 8 of keys and values: Megatron repeats those, transformers does not."""
    seventy = Legality(model("llama-2-70b"))
    hugging = seventy.get_layout_rules(TrainWorkload(sequence_length=512))
    fully = Layout(sharding=Sharding.FSDP2, zero_stage=3)
    megatron = Layout(sharding=Sharding.MEGATRON)

    assert seventy.get_layout_rules(MEGATRON).list_degrees(
        megatron, "tensor_parallel", max_degree=64
    ) == (1, 2, 4, 8, 16, 32, 64)
    assert hugging.list_degrees(fully, "tensor_parallel", max_degree=64) == (1, 2, 4, 8)
    assert seventy.get_layout_rules(MEGATRON).list_degrees(
        megatron, "pipeline_parallel", max_degree=16
    ) == (1, 2, 4, 5, 8, 10, 16)


def test_what_a_workload_breaks_in_every_layout_is_known_before_any() -> None:
    """Adapters have no term in Megatron, however it is laid out."""
    adapters = replace(MEGATRON, method=Method.LORA, lora=Lora())
    layouts = Legality(model("llama-3-8b")).get_layout_rules(adapters)

    assert layouts.violation is not None
    assert layouts.violation.field == "workload.method"
    assert layouts.check(Layout(sharding=Sharding.MEGATRON)) == layouts.violation


def test_a_refusal_names_the_field_what_is_allowed_and_its_source() -> None:
    """Three ranks cannot share 32 heads, and the answer says which numbers can."""
    illegal = find_violation(model("llama-3-8b"), CHAT, Layout(tensor_parallel=3))

    assert illegal is not None
    assert illegal.reason == "tensor_parallel 3 does not divide 32 attention heads"
    assert (illegal.field, illegal.modelled) == ("layout.tensor_parallel", False)
    assert illegal.allowed == (1, 2, 4, 8, 16, 32)
    assert "vLLM" in illegal.source


def test_experts_spread_over_all_ranks_or_none() -> None:
    """With expert parallelism an engine's experts stand on tensor x data ranks: not on some of
    them.
    """
    mixtral = Legality(model("mixtral-8x7b"))

    assert mixtral.check(CHAT, Layout(data_parallel=4, expert_parallel=4)) is None
    assert mixtral.check(CHAT, Layout(data_parallel=4, expert_parallel=2)) is not None
    whole = Layout(tensor_parallel=4, data_parallel=2, expert_parallel=8, expert_tensor_parallel=1)
    assert mixtral.check(CHAT, whole) is None
    sliced = mixtral.check(CHAT, Layout(tensor_parallel=4, data_parallel=2, expert_parallel=2))
    assert sliced is not None
    assert "tensor_parallel 4 x data_parallel 2" in sliced.reason


def test_interleaved_stages_take_micro_batches_in_groups() -> None:
    """Four stages interleaved twice run 8 micro-batches a step, not 6."""
    layout = Layout(pipeline_parallel=4, virtual_pipeline_stages=2, sharding=Sharding.MEGATRON)
    check = Legality(model("llama-3-8b")).check

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
    assert set(list_shardings(TrainWorkload(sequence_length=1, framework=framework))) == ways


def test_rules_about_experts_are_asked_of_models_that_have_some() -> None:
    """What is dropped for a dense model holds for one with experts: Megatron wants their sequence
    split beside tensors.
    """
    layout = Layout(tensor_parallel=2, sharding=Sharding.MEGATRON)

    assert find_violation(model("llama-3-8b"), MEGATRON, layout) is None
    refused = find_violation(model("mixtral-8x7b"), MEGATRON, layout)
    assert refused is not None
    assert (refused.field, refused.allowed) == ("layout.sequence_parallel", (True,))
    assert (
        find_violation(model("mixtral-8x7b"), MEGATRON, replace(layout, sequence_parallel=True))
        is None
    )

"""Pipelines whose stages do not divide the layers, as a search finds them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.cli.offline.how_many import how_many
from service.estimator.model.pipelines.megatron import spread_layers
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSplit
from service.estimator.values.workload import Checkpointing
from service.planner.search.bounds import compute_saved_activations, count_activation_ranks
from service.planner.search.splits import choose_split, list_pipelines
from tests.unit.estimator.backends.megatron.builders import a_gpt3, a_megatron_step, answered

_SIXTEEN = (*(3,) * 2, *(4,) * 13, 3)


@pytest.mark.parametrize(
    ("layers", "stages"),
    [(61, (1, 2, 4, 8, 16, 61)), (94, (1, 2, 4, 8, 16, 32, 47)), (32, (1, 2, 4, 8, 16, 32))],
)
def test_stages_are_divisors_and_powers_of_two(layers: int, stages: tuple[int, ...]) -> None:
    """DeepSeek-V3 has only itself, and no node has 61 GPUs."""
    assert list_pipelines(layers, Layout(), range(1, 65)) == stages


def test_stages_that_do_not_divide_have_their_layers_counted() -> None:
    """Those that do keep the plain words, and what a question says stays."""
    fixed = Layout(pipeline_parallel=2, pipeline_split=PipelineSplit(pipeline_layers=(31, 30)))

    assert choose_split(61, Layout(), 16).pipeline_layers == _SIXTEEN
    assert choose_split(64, Layout(), 16).pipeline_layers is None
    assert choose_split(61, fixed, 2).pipeline_layers == (31, 30)


@given(
    layers=st.integers(2, 24),
    stages=st.sampled_from((2, 3, 4, 8)),
    steps=st.integers(1, 12),
    drops=st.integers(0, 3),
)
def test_a_bound_on_activations_is_one_for_uneven_stages(
    layers: int, stages: int, steps: int, drops: int
) -> None:
    """No pipeline keeps less than what a search drops it for, whatever its first stage has."""
    counts = list(spread_layers(max(layers, stages), stages))
    moved = min(drops, counts[0])
    counts[0], counts[-1] = counts[0] - moved, counts[-1] + moved
    model = a_gpt3(num_hidden_layers=sum(counts), vocab_size=1024)
    layout = Layout(
        pipeline_parallel=stages,
        pipeline_split=PipelineSplit(pipeline_layers=tuple(counts)),
        sharding=Sharding.MEGATRON,
    )
    words: dict[str, Any] = {
        "gradient_accumulation_steps": steps,
        "activation_checkpointing": Checkpointing.FULL,
        "micro_batch_size": 1,
    }

    saved = compute_saved_activations(model, a_megatron_step(**words)).inputs * min(steps, stages)
    answer = answered(
        model,
        layout={"pipeline_parallel": stages, "pipeline_split": layout.pipeline_split},
        **words,
    )

    assert saved / count_activation_ranks(model, layout) <= max(
        stage.allocated_bytes - stage.steady_bytes for stage in answer.stages
    )


def test_deepseek_v3_needs_no_pipeline_of_61_stages() -> None:
    """It took 488 GPUs of 61 stages each; on stages of a power of two, 256 are enough, as NVIDIA's
    recipe of 32 nodes says.
    """
    answer = how_many(
        {
            "model": "deepseek-v3-bf16",
            "gpu": "H100-SXM5-80GB",
            "workload": {
                "task": "train",
                "sequence_length": 4096,
                "framework": "megatron",
                "precision": "megatron_bf16",
                "micro_batch_size": 1,
                "activation_checkpointing": "full",
            },
            "layout": {"tensor_parallel": 2, "expert_tensor_parallel": 1, "context_parallel": 1},
            "constraints": {"max_gpus": 512},
        },
        None,
    )

    layout = (
        answer["plans"][0]["candidates"][0]["layout"]
        if "plans" in answer
        else answer["candidates"][0]["layout"]
    )
    assert answer["num_gpus"] == 256
    assert sum(layout["pipeline_layers"]) == 61
    assert len(layout["pipeline_layers"]) == layout["pipeline_parallel"]

"""Published recipes of models whose layers no pipeline divides.

Megatron-Bridge, ``src/megatron/bridge/recipes``: ``qwen/h100/qwen3_moe.py`` and
``deepseek/h100/deepseek_v3.py``.
"""

from dataclasses import replace

import pytest

from service.catalog.models import load_architecture, resolve_model
from service.estimator.backends.megatron.parameters import count_stage_parameters
from service.estimator.backends.megatron.shape import build_rank_shape
from service.estimator.backends.megatron.stages import list_stage_chunks, merge_chunks
from service.estimator.estimate import estimate
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.pipeline import PipelineSplit
from service.estimator.values.workload import Checkpointing
from tests.unit.estimator.backends.megatron.builders import H100, a_gpt3, a_megatron_step, answered

QWEN3 = Layout(
    data_parallel=2,
    tensor_parallel=4,
    pipeline_parallel=16,
    context_parallel=2,
    expert_parallel=8,
    expert_tensor_parallel=1,
    sequence_parallel=True,
    zero_stage=1,
    sharding=Sharding.MEGATRON,
    pipeline_split=PipelineSplit(
        account_for_embedding_in_pipeline_split=True, account_for_loss_in_pipeline_split=True
    ),
)
DEEPSEEK_V3 = Layout(
    data_parallel=32,
    tensor_parallel=2,
    pipeline_parallel=16,
    expert_parallel=64,
    expert_tensor_parallel=1,
    sequence_parallel=True,
    zero_stage=1,
    sharding=Sharding.MEGATRON,
    pipeline_split=PipelineSplit(pipeline_model_parallel_layout="Et*4|(t*4|)*14tmL"),
)
STEP = a_megatron_step(sequence_length=4096, micro_batch_size=1, gradient_accumulation_steps=128)


def test_qwen3_235b_trains_on_256_gpus_as_its_recipe_says() -> None:
    """94 layers and two places on 16 stages; the second stage has one layer more than the first."""
    model = load_architecture(resolve_model("qwen3-235b-a22b"))

    answer = estimate(model, STEP, layout=QWEN3, device=H100)

    assert [stage.layers for stage in answer.stages] == [(5,), *[(6,)] * 14, (5,)]
    assert [stage.micro_batches_in_flight[0] for stage in answer.stages] == list(range(16, 0, -1))
    assert answer.worst_pipeline_stage == 1
    assert answer.device_bytes < H100.usable_bytes


def test_deepseek_v3_trains_on_1024_gpus_as_its_recipe_says() -> None:
    """61 layers, the first three dense, and a layer that predicts a further token on the last of 16
    stages, which holds a table and a head as well.
    """
    model = load_architecture(resolve_model("deepseek-v3-bf16"))

    answer = estimate(model, STEP, layout=DEEPSEEK_V3, device=H100)
    recomputed = estimate(
        model,
        replace(STEP, activation_checkpointing=Checkpointing.FULL),
        layout=DEEPSEEK_V3,
        device=H100,
    )

    assert [stage.layers for stage in answer.stages] == [*[(4,)] * 15, (1,)]
    assert answer.worst_pipeline_stage == 1
    assert answer.device_bytes < H100.usable_bytes
    assert recomputed.device_bytes < answer.device_bytes / 1.5


@pytest.mark.parametrize("layout", [QWEN3, DEEPSEEK_V3])
def test_the_stages_of_an_uneven_pipeline_add_up_to_the_model(layout: Layout) -> None:
    """Every parameter is on one stage; a layer that predicts brings a layer, a table, a projection
    of two states and three norms.
    """
    is_deepseek = layout is DEEPSEEK_V3
    model = load_architecture(
        resolve_model("deepseek-v3-bf16" if is_deepseek else "qwen3-235b-a22b")
    )
    alone = replace(
        layout,
        data_parallel=1,
        tensor_parallel=1,
        context_parallel=1,
        expert_parallel=1,
        expert_tensor_parallel=None,
        sequence_parallel=False,
    )
    shape = build_rank_shape(model, alone)

    counted = sum(
        count_stage_parameters(shape, merge_chunks(chunks)).total
        for _, chunks in list_stage_chunks(model, alone)
    )

    hidden = model.spec.hidden_size
    layer = sum(weight.numel for weight in model.blocks[-1][0].weights())
    padding = 2 * (shape.vocabulary - model.vocab_size) * hidden
    more = layer + shape.vocabulary * hidden + 2 * hidden**2 + 3 * hidden if is_deepseek else 0
    assert counted == model.counts.total + padding + more


def test_fewer_layers_on_the_first_stage_take_less_of_it() -> None:
    """The first stage keeps every micro-batch in flight: two layers fewer there lower the peak."""
    even, uneven = (
        answered(
            a_gpt3(vocab_size=1024),
            layout={"pipeline_parallel": 4, "pipeline_split": split},
            gradient_accumulation_steps=8,
        )
        for split in (PipelineSplit(), PipelineSplit(pipeline_layers=(1, 3, 4, 4)))
    )

    assert even.worst_pipeline_stage == 0
    assert uneven.worst_pipeline_stage > 0
    assert uneven.allocated_bytes < even.allocated_bytes


def test_a_layer_that_predicts_costs_its_logits_too() -> None:
    """Both losses keep fp32 logits until backward (``process_mtp_loss``)."""
    layouts = [
        {
            "pipeline_parallel": 2,
            "pipeline_split": PipelineSplit(pipeline_model_parallel_layout=text),
        }
        for text in ("Et*6|t*6L", "Et*6|t*6mL")
    ]

    without, beside = (
        answered(layout=layout, gradient_accumulation_steps=2).stages[1] for layout in layouts
    )

    logits = 4 * 4 * 1024 * 50304
    assert beside.allocated_bytes - beside.steady_bytes > (
        without.allocated_bytes - without.steady_bytes + logits
    )

"""Megatron-LM's arguments as they are rendered, read back."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from service.catalog.models import load_architecture, resolve_model
from service.estimator.estimate import estimate
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.losses import Loss
from service.estimator.values.megatron import (
    CrossEntropyFusion,
    MegatronOptions,
    TokenDispatcher,
    TransformerImpl,
)
from service.estimator.values.pipeline import PipelineSplit
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import Allocator, Attention, Checkpointing
from tests.unit.formats.launches.asking import GPU
from tests.unit.formats.launches.training import read_training_back
from tests.unit.formats.renderings.builders import MEGATRON, a_job

MODELS = [
    *("llama-2-7b", "gpt2", "mixtral-8x7b", "deepseek-v3-bf16", "qwen2.5-7b", "qwen3-8b"),
    *("starcoder2-7b", "qwen1.5-moe-a2.7b", "qwen3-30b-a3b", "smollm3-3b", "minitron-4b"),
]
DENSE = replace(MEGATRON, precision=POLICIES["megatron_bf16"])


@st.composite
def draw_options(draw: st.DrawFn, *, experts: bool, loss: Loss, stages: int) -> MegatronOptions:
    """Draw Megatron-LM's own arguments where they have an effect."""
    local = draw(st.booleans())
    fuses = draw(st.booleans())
    defers = fuses and stages > 1 and draw(st.booleans())
    said: dict[str, Any] = {}
    if local:
        said = {
            "masked_softmax_fusion": draw(st.booleans()),
            "attention_softmax_in_fp32": draw(st.booleans()),
        }
    if experts:
        said |= {
            "moe_token_dispatcher_type": draw(st.sampled_from(TokenDispatcher)),
            "moe_grouped_gemm": draw(st.booleans()),
        }
    if loss is Loss.FUSED_CROSS_ENTROPY:
        said["cross_entropy_fusion_impl"] = draw(st.sampled_from(CrossEntropyFusion))
    return MegatronOptions(
        transformer_impl=TransformerImpl.LOCAL if local else TransformerImpl.TRANSFORMER_ENGINE,
        gradient_accumulation_fusion=fuses,
        create_attention_mask=draw(st.booleans()),
        mtp_num_layers=draw(st.sampled_from([0, 1])),
        defer_embedding_wgrad_compute=defers,
        wgrad_deferral_limit=draw(st.sampled_from([0, 2])) if defers else 0,
        **said,
    )


@st.composite
def draw_jobs(draw: st.DrawFn) -> Any:  # noqa: ANN401 - a job
    """Draw a job of Megatron-LM that its arguments say."""
    model = draw(st.sampled_from(["llama-2-7b", "mixtral-8x7b"]))
    stages = draw(st.sampled_from([1, 2, 4]))
    virtual = draw(st.sampled_from([1, 2])) if stages > 1 else 1
    data = draw(st.sampled_from([1, 2, 4, 8]))
    layout = Layout(
        data_parallel=data,
        tensor_parallel=draw(st.sampled_from([1, 2, 4])),
        pipeline_parallel=stages,
        virtual_pipeline_stages=virtual,
        context_parallel=draw(st.sampled_from([1, 2])),
        expert_parallel=data if model == "mixtral-8x7b" else 1,
        sharding=Sharding.MEGATRON,
        zero_stage=draw(st.sampled_from([0, 1])),
        pipeline_split=draw(
            st.sampled_from(
                [PipelineSplit()]
                if stages < 4 or virtual > 1
                else [PipelineSplit(), PipelineSplit(num_layers_in_last_pipeline_stage=8)]
            )
        ),
    )
    policies = ["megatron_bf16", "bf16_mixed", "fp16_mixed"]
    loss = draw(st.sampled_from([Loss.FULL_LOGITS, Loss.FUSED_CROSS_ENTROPY]))
    options = draw_options(experts=model == "mixtral-8x7b", loss=loss, stages=stages)
    workload = replace(
        MEGATRON,
        micro_batch_size=draw(st.sampled_from([1, 2])),
        gradient_accumulation_steps=draw(st.sampled_from([1, 8])),
        precision=POLICIES[draw(st.sampled_from(policies))],
        optimizer=draw(st.sampled_from(["adamw", "sgd", "sgd_momentum"])),
        activation_checkpointing=draw(st.sampled_from(Checkpointing)),
        attention=draw(st.sampled_from([Attention.SDPA, Attention.FLASH, Attention.EAGER])),
        loss=loss,
        megatron=draw(options),
        gradient_clipping=draw(st.booleans()),
        deterministic=draw(st.booleans()),
        allocator=draw(st.sampled_from(Allocator)),
    )
    return a_job(workload, layout, model=model, gpu=GPU)


@settings(max_examples=40, deadline=None)
@given(job=draw_jobs())
def test_what_is_rendered_is_read_back(job: Any) -> None:  # noqa: ANN401 - a job
    """A rendered command asks what was evaluated, of the same model, workload and layout."""
    question = read_training_back(job)

    assert question.workload == job.workload
    assert question.layout == job.layout
    assert question.architecture.fingerprint() == job.model.fingerprint()


@pytest.mark.parametrize("name", MODELS)
def test_sizes_of_a_launch_are_the_model(name: str) -> None:
    """What the arguments say of a model has its parameters, and its bytes in a step."""
    model = load_architecture(resolve_model(name))
    layout = Layout(data_parallel=2, sharding=Sharding.MEGATRON, zero_stage=1)
    job = a_job(replace(DENSE, sequence_length=1024), layout, model=name, gpu=GPU)

    question = read_training_back(job, names_model=False)

    again = question.architecture
    peaks = [
        estimate(
            each, question.workload, layout=question.layout, device=question.device
        ).allocated_bytes
        for each in (model, again)
    ]
    assert again.parameter_counts().total == model.parameter_counts().total
    assert peaks[0] == peaks[1]

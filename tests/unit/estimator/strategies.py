"""Strategies: small models, workloads and layouts of any shape."""

from typing import Any

from hypothesis import strategies as st

from service.estimator.model.architecture import Architecture
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.precision import POLICIES
from service.estimator.values.workload import (
    Attention,
    Cache,
    Checkpointing,
    Lora,
    Method,
    ServeWorkload,
    TrainWorkload,
)
from tests.builders import a_gpt2, a_mixture, a_model

_OPTIMIZERS = ("adamw", "adamw_fused", "adamw_loop", "sgd", "sgd_momentum")


@st.composite
def models(draw: st.DrawFn) -> Architecture:
    """Draw a llama, a GPT-2 or a mixture of experts of any small shape."""
    heads, groups = draw(st.sampled_from([(4, 4), (4, 2), (8, 2), (6, 1)]))
    shape: dict[str, Any] = {
        "num_attention_heads": heads,
        "num_hidden_layers": draw(st.integers(1, 6)),
        "hidden_size": heads * 16,
        "intermediate_size": draw(st.integers(1, 64)) * 8,
        "vocab_size": draw(st.integers(16, 4000)),
        "tie_word_embeddings": draw(st.booleans()),
    }
    kind = draw(st.sampled_from(["llama", "gpt2", "mixture"]))
    if kind == "gpt2":
        return a_gpt2(**shape, num_key_value_heads=heads)
    shape |= {"num_key_value_heads": groups, "query_key_norm": draw(st.booleans())}
    return a_mixture(**shape) if kind == "mixture" else a_model(**shape)


@st.composite
def trainings(draw: st.DrawFn, model: Architecture, *, adapters: bool = True) -> TrainWorkload:
    """Draw a training step that has an answer, of the whole model or perhaps of adapters."""
    rank = draw(st.none() | st.integers(1, 16)) if adapters else None
    policies = [
        name
        for name, policy in POLICIES.items()
        if not (policy.autocast and model.spec.num_experts)
        and not (name == "fp16_autocast" and rank is None)  # no scaler unscales fp16 gradients
    ]
    targets = ("q_proj", "v_proj") if model.spec.num_experts else None
    precision = POLICIES[draw(st.sampled_from(policies))]
    is_fp32 = precision.compute_dtype is DType.FP32  # which flash takes no queries in
    kernels = [kernel for kernel in Attention if not (is_fp32 and kernel is Attention.FLASH)]
    return TrainWorkload(
        sequence_length=draw(st.integers(1, 400)),
        micro_batch_size=draw(st.integers(1, 5)),
        gradient_accumulation_steps=draw(st.integers(1, 3)),
        method=Method.FULL if rank is None else Method.LORA,
        lora=None if rank is None else Lora(rank=rank, targets=targets),
        precision=precision,
        optimizer=draw(st.sampled_from(_OPTIMIZERS)),
        activation_checkpointing=draw(st.sampled_from([Checkpointing.NONE, Checkpointing.FULL])),
        attention=draw(st.sampled_from(kernels)),
        keeps_logits=draw(st.booleans()),
        fp32_outputs=draw(st.booleans()),
    )


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Draw data parallelism under any sharding."""
    ranks = draw(st.sampled_from([1, 2, 3, 8, 64]))
    sharding, stage = draw(
        st.sampled_from(
            [
                (Sharding.DDP, 0),
                (Sharding.FSDP2, 3),
                *[(Sharding.DEEPSPEED, stage) for stage in range(4)],
                (Sharding.MEGATRON, 1),
            ],
        ),
    )
    reshard = draw(st.booleans())
    return Layout(
        data_parallel=ranks, zero_stage=stage, sharding=sharding, reshard_after_forward=reshard
    )


@st.composite
def questions(draw: st.DrawFn) -> tuple[Architecture, TrainWorkload, Layout]:
    """Draw a model, a training step and a layout."""
    model = draw(models())
    return model, draw(trainings(model)), draw(layouts())


@st.composite
def servings(draw: st.DrawFn) -> tuple[Architecture, ServeWorkload]:
    """Draw a model and a serving workload that has an answer."""
    prompt_tokens, output_tokens = draw(st.integers(1, 500)), draw(st.integers(0, 100))
    cache = draw(st.sampled_from([Cache.DYNAMIC, Cache.STATIC]))
    lengths = (
        st.integers(prompt_tokens + output_tokens, 1000) if cache is Cache.STATIC else st.nothing()
    )
    workload = ServeWorkload(
        num_sequences=draw(st.integers(1, 20)),
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        cache=cache,
        max_model_len=draw(st.none() | lengths),
        attention=draw(st.sampled_from(list(Attention))),
    )
    return draw(models()), workload

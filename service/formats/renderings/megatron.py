"""Megatron-LM's arguments: layout, batch and model shape.

``megatron/training/arguments.py``, Core 0.14.
"""

from service.estimator.model.spec import DecoderSpec
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload
from service.formats.renderings.text import Scalar, render_flags, select_enabled

_BACKENDS = {Attention.FLASH: "flash", Attention.EAGER: "unfused", Attention.SDPA: "auto"}


def render_megatron_arguments(
    spec: DecoderSpec, workload: TrainWorkload, layout: Layout
) -> tuple[str, ...]:
    """Return the arguments of ``pretrain_gpt.py``."""
    return (*_render_shape(spec), *_render_layout(spec, layout), *_render_step(workload, layout))


def _render_layout(spec: DecoderSpec, layout: Layout) -> tuple[str, ...]:
    parts = layout.pipeline_parallel * layout.virtual_pipeline_stages
    values: dict[str, Scalar | None] = {
        "tensor-model-parallel-size": layout.tensor_parallel,
        "pipeline-model-parallel-size": layout.pipeline_parallel,
        "num-layers-per-virtual-pipeline-stage": (
            spec.num_hidden_layers // parts if layout.virtual_pipeline_stages > 1 else None
        ),
        "context-parallel-size": layout.context_parallel,
        "expert-model-parallel-size": layout.expert_parallel if spec.num_experts else None,
        "expert-tensor-parallel-size": layout.expert_tensor_parallel if spec.num_experts else None,
    }
    sequence = layout.sequence_parallel
    return render_flags(
        values,
        switches=select_enabled(
            {"sequence-parallel": sequence, "use-distributed-optimizer": layout.zero_stage == 1}
        ),
    )


def _render_step(workload: TrainWorkload, layout: Layout) -> tuple[str, ...]:
    full = workload.activation_checkpointing is Checkpointing.FULL
    batch = workload.micro_batch_size * workload.gradient_accumulation_steps * layout.data_parallel
    values: dict[str, Scalar | None] = {
        "micro-batch-size": workload.micro_batch_size,
        "global-batch-size": batch,
        "seq-length": workload.sequence_length,
        "recompute-granularity": None
        if workload.activation_checkpointing is Checkpointing.NONE
        else ("full" if full else "selective"),
        "recompute-method": "uniform" if full else None,
        "recompute-num-layers": 1 if full else None,
        "attention-backend": _BACKENDS[workload.attention],
        "optimizer": "adam" if workload.optimizer.startswith("adamw") else "sgd",
        "clip-grad": 1.0 if workload.gradient_clipping else 0.0,
    }
    precision = workload.precision
    return render_flags(
        values,
        switches=select_enabled(
            {
                "bf16": precision.param_dtype is DType.BF16,
                "fp16": precision.param_dtype is DType.FP16,
                "accumulate-allreduce-grads-in-fp32": precision.grad_dtype is DType.FP32,
                "cross-entropy-loss-fusion": workload.loss is Loss.FUSED_CROSS_ENTROPY,
            },
        ),
    )


def _render_shape(spec: DecoderSpec) -> tuple[str, ...]:
    grouped = spec.num_key_value_heads != spec.num_attention_heads
    values: dict[str, Scalar | None] = {
        "num-layers": spec.num_hidden_layers,
        "hidden-size": spec.hidden_size,
        "ffn-hidden-size": spec.intermediate_size,
        "num-attention-heads": spec.num_attention_heads,
        "num-query-groups": spec.num_key_value_heads if grouped else None,
        "kv-channels": spec.head_dim,
        "max-position-embeddings": spec.max_position_embeddings or None,
        "vocab-size": spec.vocab_size,
        "normalization": "RMSNorm" if spec.norm == "rms" else "LayerNorm",
        "position-embedding-type": "rope" if spec.rotary else "learned_absolute",
        "num-experts": spec.num_experts or None,
        "moe-router-topk": spec.num_experts_per_token or None,
        "transformer-impl": "transformer_engine",
    }
    return render_flags(
        values,
        switches=select_enabled(
            {
                "group-query-attention": grouped,
                "swiglu": spec.gated,
                "untie-embeddings-and-output-weights": not spec.tie_word_embeddings,
                "add-qkv-bias": spec.attention_bias and not spec.attention_output_bias,
                "disable-bias-linear": not spec.mlp_bias and not spec.attention_output_bias,
                "qk-layernorm": spec.query_key_norm,
            },
        ),
    )

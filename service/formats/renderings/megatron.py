"""Megatron-LM's arguments: layout, batch and model shape.

``megatron/training/arguments.py``, Core 0.14.
"""

from collections.abc import Sequence

from service.estimator.model.architecture import Architecture
from service.estimator.model.families.moe.deepseek import LatentSpec
from service.estimator.model.families.moe.tree import MoeSpec
from service.estimator.model.pipelines.chunks import Chunk
from service.estimator.model.pipelines.split import split_model
from service.estimator.model.spec import DecoderSpec
from service.estimator.values.dtypes import DType
from service.estimator.values.layout import Layout
from service.estimator.values.losses import Loss
from service.estimator.values.megatron import TransformerImpl
from service.estimator.values.pipeline import EVEN
from service.estimator.values.workload import Attention, Checkpointing, TrainWorkload
from service.formats.renderings.text import Scalar, render_flags, select_enabled

_BACKENDS = {Attention.FLASH: "flash", Attention.EAGER: "unfused", Attention.SDPA: "auto"}


def render_megatron_arguments(
    model: Architecture, workload: TrainWorkload, layout: Layout
) -> tuple[str, ...]:
    """Return the arguments of ``pretrain_gpt.py``."""
    return (
        *_render_shape(model.spec),
        *_render_layout(model.spec, layout),
        *(_render_pipeline(model, layout) if layout.pipeline_parallel > 1 else ()),
        *_render_step(workload, layout),
        *_render_options(workload, has_experts=model.spec.num_experts > 0),
    )


def _render_options(workload: TrainWorkload, *, has_experts: bool) -> tuple[str, ...]:
    """Return whose layers run, how tokens reach experts, and what is fused."""
    options, fuses = workload.megatron, workload.loss is Loss.FUSED_CROSS_ENTROPY
    local = options.transformer_impl is TransformerImpl.LOCAL
    defers = options.defer_embedding_wgrad_compute
    values: dict[str, Scalar | None] = {
        "transformer-impl": options.transformer_impl.value,
        "moe-token-dispatcher-type": (
            options.moe_token_dispatcher_type.value if has_experts else None
        ),
        "mtp-num-layers": options.mtp_num_layers or None,
        "cross-entropy-fusion-impl": options.cross_entropy_fusion_impl.value if fuses else None,
        "wgrad-deferral-limit": options.wgrad_deferral_limit or None,
    }
    switches = {
        "moe-grouped-gemm": has_experts and options.moe_grouped_gemm,
        "no-gradient-accumulation-fusion": not options.gradient_accumulation_fusion,
        "no-masked-softmax-fusion": local and not options.masked_softmax_fusion,
        "attention-softmax-in-fp32": local and options.attention_softmax_in_fp32,
        "no-create-attention-mask-in-dataloader": not options.create_attention_mask,
        "defer-embedding-wgrad-compute": defers,
        "cross-entropy-loss-fusion": fuses,
    }
    return render_flags(values, switches=select_enabled(switches))


def _render_layout(spec: DecoderSpec, layout: Layout) -> tuple[str, ...]:
    values: dict[str, Scalar | None] = {
        "tensor-model-parallel-size": layout.tensor_parallel,
        "pipeline-model-parallel-size": layout.pipeline_parallel,
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


def _render_pipeline(model: Architecture, layout: Layout) -> tuple[str, ...]:
    """Return how layers are spread over stages.

    What Megatron-LM has no word for is a layout of its own, ``|`` between chunks.
    """
    split, virtual, spec = layout.pipeline_split, layout.virtual_pipeline_stages, model.spec
    chunks = split_model(model, layout)
    parts, interleaves = layout.pipeline_parallel * virtual, virtual > 1
    by_hand = split.pipeline_layers or split.partition_method
    text = _format_layout(chunks) if by_hand else split.pipeline_model_parallel_layout
    even, named = split == EVEN, text is None
    values: dict[str, Scalar | None] = {
        "num-layers-per-virtual-pipeline-stage": (
            spec.num_hidden_layers // parts if interleaves and even else None
        ),
        "num-virtual-stages-per-pipeline-rank": (
            virtual if interleaves and named and not even else None
        ),
        "decoder-first-pipeline-num-layers": split.num_layers_in_first_pipeline_stage,
        "decoder-last-pipeline-num-layers": split.num_layers_in_last_pipeline_stage,
        "pipeline-model-parallel-layout": text,
        "mtp-num-layers": sum(chunk.num_predictors for chunk in chunks) or None,
    }
    places = ("account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split")
    switches = {name.replace("_", "-"): bool(getattr(split, name)) for name in places}
    return render_flags(values, switches=select_enabled(switches))


def _format_layout(chunks: Sequence[Chunk]) -> str:
    """Return chunks as Megatron-LM's letters, such as ``Etttt|tttt|tttL``."""
    return "|".join(
        "E" * chunk.has_embedding
        + "t" * chunk.num_layers
        + "m" * chunk.num_predictors
        + "L" * chunk.has_loss
        for chunk in chunks
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
        **_name_optimizer(workload.optimizer),
        "clip-grad": 1.0 if workload.gradient_clipping else 0.0,
    }
    precision = workload.precision
    is_bf16 = precision.param_dtype is DType.BF16
    return render_flags(
        values,
        switches=select_enabled(
            {
                "bf16": is_bf16,
                "fp16": precision.param_dtype is DType.FP16,
                "accumulate-allreduce-grads-in-fp32": precision.grad_dtype is DType.FP32,
                "grad-reduce-in-bf16": is_bf16 and precision.grad_dtype is DType.BF16,
                "deterministic-mode": workload.deterministic,
            },
        ),
    )


def _name_optimizer(optimizer: str) -> dict[str, Scalar | None]:
    """Return the optimizer and the momentum of SGD, 0.9 by default."""
    if optimizer.startswith("adamw"):
        return {"optimizer": "adam"}
    return {"optimizer": "sgd", "sgd-momentum": 0.0 if optimizer == "sgd" else None}


def _render_shape(spec: DecoderSpec) -> tuple[str, ...]:
    grouped = spec.num_key_value_heads != spec.num_attention_heads
    gated_expert = isinstance(spec, MoeSpec) and (
        spec.router == "softmax" and spec.shared_intermediate_size > 0
    )
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
        "attention-dropout": spec.attention_dropout,
        "hidden-dropout": spec.residual_dropout,
        **_list_expert_sizes(spec),
        **_list_latent_sizes(spec),
    }
    return render_flags(
        values,
        switches=select_enabled(
            {
                "group-query-attention": grouped,
                "swiglu": spec.gated,
                "squared-relu": spec.activation == "relu2",
                "untie-embeddings-and-output-weights": not spec.tie_word_embeddings,
                "add-qkv-bias": spec.attention_bias and not spec.attention_output_bias,
                "disable-bias-linear": not spec.mlp_bias and not spec.attention_output_bias,
                "qk-layernorm": spec.query_key_norm,
                "multi-latent-attention": isinstance(spec, LatentSpec),
                "moe-shared-expert-gate": gated_expert,
            },
        ),
    )


def _list_expert_sizes(spec: DecoderSpec) -> dict[str, Scalar | None]:
    if not isinstance(spec, MoeSpec) or not spec.num_experts:
        return {}
    dense, sparse = spec.first_dense_layers, spec.num_hidden_layers - spec.first_dense_layers
    return {
        "moe-ffn-hidden-size": spec.expert_intermediate_size,
        "moe-shared-expert-intermediate-size": spec.shared_intermediate_size or None,
        "moe-layer-freq": f"([0]*{dense}+[1]*{sparse})" if dense else None,
        "moe-router-score-function": "sigmoid" if spec.router.endswith("sigmoid") else None,
    }


def _list_latent_sizes(spec: DecoderSpec) -> dict[str, Scalar | None]:
    if not isinstance(spec, LatentSpec):
        return {}
    return {
        "q-lora-rank": spec.query_latent or None,
        "kv-lora-rank": spec.key_value_latent,
        "qk-head-dim": spec.passed_dim,
        "qk-pos-emb-head-dim": spec.rotary_dim,
        "v-head-dim": spec.value_dim,
    }

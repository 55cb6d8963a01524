"""Parts of one trainer: Megatron-LM's arguments, a policy's rollout and critic."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import (
    Batch,
    Count,
    Fraction,
    JsonObject,
    ModelName,
    Strict,
    Tokens,
    Version,
)
from service.estimator.values.dtypes import DType
from service.estimator.values.generation import MAX_SLEEP_LEVEL, RolloutEngine
from service.estimator.values.megatron import CrossEntropyFusion, TokenDispatcher, TransformerImpl


class MegatronRequest(Strict, frozen=True, kw_only=True):
    """Arguments of Megatron-LM's `pretrain_gpt.py` that other frameworks do not have."""

    transformer_impl: Annotated[
        TransformerImpl | UnsetType,
        Meta(
            description=(
                "Whose layers run: `transformer_engine`, the default, or `local`, Megatron Core's "
                "own, which keep whole scores."
            )
        ),
    ] = UNSET
    moe_token_dispatcher_type: Annotated[
        TokenDispatcher | UnsetType,
        Meta(
            description=(
                "How tokens reach their experts: `alltoall`, the default here, or `allgather`, "
                "Megatron-LM's own default."
            )
        ),
    ] = UNSET
    moe_grouped_gemm: Annotated[
        bool | UnsetType,
        Meta(description="The experts of a rank run in one kernel, by default; else in turn."),
    ] = UNSET
    gradient_accumulation_fusion: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "Products add the gradients of weights to their buffers, by default; false is "
                "`--no-gradient-accumulation-fusion`."
            )
        ),
    ] = UNSET
    masked_softmax_fusion: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "Of `local` layers: one kernel scales, masks and normalises scores, by default; "
                "false is `--no-masked-softmax-fusion`."
            )
        ),
    ] = UNSET
    attention_softmax_in_fp32: Annotated[
        bool | UnsetType,
        Meta(description="Of `local` layers without that kernel: scores are fp32; default false."),
    ] = UNSET
    cross_entropy_fusion_impl: Annotated[
        CrossEntropyFusion | UnsetType,
        Meta(
            description=(
                "Whose kernels loss `fused_cross_entropy` runs: `te`, the default here, or "
                "`native`, Megatron-LM's own default."
            )
        ),
    ] = UNSET
    create_attention_mask: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "The data loader makes a mask for each sequence, by default; false is "
                "`--no-create-attention-mask-in-dataloader`."
            )
        ),
    ] = UNSET
    mtp_num_layers: Annotated[
        Annotated[int, Meta(ge=0, le=64)] | UnsetType,
        Meta(
            description=(
                "Layers that predict further tokens, on the last stage; default 0, or those that "
                "`pipeline_model_parallel_layout` draws."
            )
        ),
    ] = UNSET
    defer_embedding_wgrad_compute: Annotated[
        bool | UnsetType,
        Meta(description="The head's weight gradient waits for the pipeline's end; default false."),
    ] = UNSET
    wgrad_deferral_limit: Annotated[
        Annotated[int, Meta(ge=0, le=65_536)] | UnsetType,
        Meta(description="Micro-batches that wait so; default 0, which is all of a step."),
    ] = UNSET


class RolloutRequest(Strict, frozen=True, kw_only=True):
    """The engine that generates completions on the trainer's GPUs."""

    engine: Annotated[
        RolloutEngine | UnsetType,
        Meta(
            description=(
                "`vllm`, the default, `sglang`, or `transformers`: the policy's own `generate()`."
            )
        ),
    ] = UNSET
    engine_version: Annotated[Version | UnsetType, Meta(description="Version of the engine.")] = (
        UNSET
    )
    num_sequences: Annotated[
        Batch | UnsetType,
        Meta(
            description=(
                "Sequences that one GPU's `generate()` has at once; engines with a pool queue "
                "them. Default 1."
            )
        ),
    ] = UNSET
    gpu_memory_fraction: Annotated[
        Fraction | UnsetType, Meta(description="Share of the whole GPU that the engine takes.")
    ] = UNSET
    tensor_parallel: Annotated[
        Count | UnsetType, Meta(description="GPUs that share one engine; default 1.")
    ] = UNSET
    sleep_level: Annotated[
        Annotated[int, Meta(ge=0, le=MAX_SLEEP_LEVEL)] | UnsetType,
        Meta(
            description=(
                "What the engine gives back while the trainer works: 0, the default, nothing; 1 "
                "its pool, and its weights to the host; 2 both, its weights dropped."
            )
        ),
    ] = UNSET
    weight_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of the engine's weights; default `bf16`.")
    ] = UNSET
    kv_cache_dtype: Annotated[
        DType | UnsetType, Meta(description="Format of keys and values; default `bf16`.")
    ] = UNSET
    max_model_len: Annotated[
        Tokens | UnsetType, Meta(description="Longest sequence that the engine accepts.")
    ] = UNSET
    max_num_batched_tokens: Annotated[
        Tokens | UnsetType, Meta(description="Tokens of one engine step.")
    ] = UNSET
    max_num_sequences: Annotated[
        Batch | UnsetType, Meta(description="Sequences that the engine schedules at once.")
    ] = UNSET
    enforce_eager: Annotated[bool | UnsetType, Meta(description="No CUDA graphs.")] = UNSET
    own_process: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "The engine is a process of its own, with a CUDA context, as verl and OpenRLHF run "
                "it; default false, TRL's."
            )
        ),
    ] = UNSET
    offload_parameters: Annotated[
        bool | UnsetType,
        Meta(description="The trainer's weights are on the host while the engine generates."),
    ] = UNSET
    offload_optimizer: Annotated[
        bool | UnsetType,
        Meta(description="The optimizer's states are on the host but for the update."),
    ] = UNSET
    bucket_bytes: Annotated[
        Annotated[int, Meta(ge=0, le=2**40)] | UnsetType,
        Meta(description="Bytes of the buffer in which weights are sent to the engine; default 0."),
    ] = UNSET


class CriticModel(Strict, frozen=True, kw_only=True):
    """A critic's model that the catalogue lacks: exactly one of these."""

    hf_config: Annotated[
        JsonObject | UnsetType, Meta(description="A Hugging Face config.json.")
    ] = UNSET
    architecture: Annotated[
        JsonObject | UnsetType, Meta(description="Our own spec, as GET /v1/models/{name} shows it.")
    ] = UNSET


class CriticRequest(Strict, frozen=True, kw_only=True):
    """The value model that PPO trains beside a policy, as sharded and in the same formats."""

    model: Annotated[
        ModelName | CriticModel | UnsetType,
        Meta(
            description=(
                "Its model, whose head becomes one number per token: a name as `model` has it, or "
                "one that is brought along; default the policy's."
            )
        ),
    ] = UNSET
    adapters: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "It has adapters as the policy has; default false, all of its weights are trained."
            )
        ),
    ] = UNSET
    micro_batch_size: Annotated[
        Batch | UnsetType,
        Meta(description="Sequences of one of its micro batches; default the policy's."),
    ] = UNSET
    sequence_length: Annotated[
        Tokens | UnsetType, Meta(description="Tokens of one of them; default the policy's.")
    ] = UNSET
    values_batch_size: Annotated[
        Batch | UnsetType,
        Meta(description="Sequences of a forward pass alone; default those of a micro batch."),
    ] = UNSET
    checkpointed: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "Its layers are computed again in backward; default as `activation_checkpointing` "
                "says."
            )
        ),
    ] = UNSET
    offload_parameters: Annotated[
        bool | UnsetType, Meta(description="Its weights are on the host while others work.")
    ] = UNSET
    offload_optimizer: Annotated[
        bool | UnsetType,
        Meta(description="Its optimizer's states are on the host but for its update."),
    ] = UNSET
    own_process: Annotated[
        bool | UnsetType,
        Meta(
            description=(
                "It is a process of its own, with a CUDA context, as OpenRLHF runs it; default "
                "false, verl's."
            )
        ),
    ] = UNSET

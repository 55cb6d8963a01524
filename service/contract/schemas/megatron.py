"""Arguments of Megatron-LM in a training request."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from service.contract.schemas.fields import Strict
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

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from attrs import define as _attrs_define

from ..models.cross_entropy_fusion import CrossEntropyFusion, check_cross_entropy_fusion
from ..models.token_dispatcher import TokenDispatcher, check_token_dispatcher
from ..models.transformer_impl import TransformerImpl, check_transformer_impl
from ..types import UNSET, Unset

T = TypeVar("T", bound="MegatronRequest")


@_attrs_define
class MegatronRequest:
    """Arguments of Megatron-LM's `pretrain_gpt.py` that other frameworks do not have.

    Attributes:
        transformer_impl (TransformerImpl | Unset): Layers of ``--transformer-impl``.
        moe_token_dispatcher_type (TokenDispatcher | Unset): Ways of tokens to their experts (``--moe-token-dispatcher-
            type``).
        moe_grouped_gemm (bool | Unset): The experts of a rank run in one kernel, by default; else in turn.
        gradient_accumulation_fusion (bool | Unset): Products add the gradients of weights to their buffers, by default;
            false is `--no-gradient-accumulation-fusion`.
        masked_softmax_fusion (bool | Unset): Of `local` layers: one kernel scales, masks and normalises scores, by
            default; false is `--no-masked-softmax-fusion`.
        attention_softmax_in_fp32 (bool | Unset): Of `local` layers without that kernel: scores are fp32; default false.
        cross_entropy_fusion_impl (CrossEntropyFusion | Unset): Kernels of a fused cross entropy (``--cross-entropy-
            fusion-impl``).
        create_attention_mask (bool | Unset): The data loader makes a mask for each sequence, by default; false is
            `--no-create-attention-mask-in-dataloader`.
        mtp_num_layers (int | Unset): Layers that predict further tokens, on the last stage; default 0, or those that
            `pipeline_model_parallel_layout` draws.
        defer_embedding_wgrad_compute (bool | Unset): The head's weight gradient waits for the pipeline's end; default
            false.
        wgrad_deferral_limit (int | Unset): Micro-batches that wait so; default 0, which is all of a step.
    """

    transformer_impl: TransformerImpl | Unset = UNSET
    moe_token_dispatcher_type: TokenDispatcher | Unset = UNSET
    moe_grouped_gemm: bool | Unset = UNSET
    gradient_accumulation_fusion: bool | Unset = UNSET
    masked_softmax_fusion: bool | Unset = UNSET
    attention_softmax_in_fp32: bool | Unset = UNSET
    cross_entropy_fusion_impl: CrossEntropyFusion | Unset = UNSET
    create_attention_mask: bool | Unset = UNSET
    mtp_num_layers: int | Unset = UNSET
    defer_embedding_wgrad_compute: bool | Unset = UNSET
    wgrad_deferral_limit: int | Unset = UNSET

    def to_dict(self) -> dict[str, Any]:
        transformer_impl: str | Unset = UNSET
        if not isinstance(self.transformer_impl, Unset):
            transformer_impl = self.transformer_impl

        moe_token_dispatcher_type: str | Unset = UNSET
        if not isinstance(self.moe_token_dispatcher_type, Unset):
            moe_token_dispatcher_type = self.moe_token_dispatcher_type

        moe_grouped_gemm = self.moe_grouped_gemm

        gradient_accumulation_fusion = self.gradient_accumulation_fusion

        masked_softmax_fusion = self.masked_softmax_fusion

        attention_softmax_in_fp32 = self.attention_softmax_in_fp32

        cross_entropy_fusion_impl: str | Unset = UNSET
        if not isinstance(self.cross_entropy_fusion_impl, Unset):
            cross_entropy_fusion_impl = self.cross_entropy_fusion_impl

        create_attention_mask = self.create_attention_mask

        mtp_num_layers = self.mtp_num_layers

        defer_embedding_wgrad_compute = self.defer_embedding_wgrad_compute

        wgrad_deferral_limit = self.wgrad_deferral_limit

        field_dict: dict[str, Any] = {}

        field_dict.update({})
        if transformer_impl is not UNSET:
            field_dict["transformer_impl"] = transformer_impl
        if moe_token_dispatcher_type is not UNSET:
            field_dict["moe_token_dispatcher_type"] = moe_token_dispatcher_type
        if moe_grouped_gemm is not UNSET:
            field_dict["moe_grouped_gemm"] = moe_grouped_gemm
        if gradient_accumulation_fusion is not UNSET:
            field_dict["gradient_accumulation_fusion"] = gradient_accumulation_fusion
        if masked_softmax_fusion is not UNSET:
            field_dict["masked_softmax_fusion"] = masked_softmax_fusion
        if attention_softmax_in_fp32 is not UNSET:
            field_dict["attention_softmax_in_fp32"] = attention_softmax_in_fp32
        if cross_entropy_fusion_impl is not UNSET:
            field_dict["cross_entropy_fusion_impl"] = cross_entropy_fusion_impl
        if create_attention_mask is not UNSET:
            field_dict["create_attention_mask"] = create_attention_mask
        if mtp_num_layers is not UNSET:
            field_dict["mtp_num_layers"] = mtp_num_layers
        if defer_embedding_wgrad_compute is not UNSET:
            field_dict["defer_embedding_wgrad_compute"] = defer_embedding_wgrad_compute
        if wgrad_deferral_limit is not UNSET:
            field_dict["wgrad_deferral_limit"] = wgrad_deferral_limit

        return field_dict

    @classmethod
    def from_dict(cls: type[T], src_dict: Mapping[str, Any]) -> T:
        d = dict(src_dict)
        _transformer_impl = d.pop("transformer_impl", UNSET)
        transformer_impl: TransformerImpl | Unset
        if isinstance(_transformer_impl, Unset):
            transformer_impl = UNSET
        else:
            transformer_impl = check_transformer_impl(_transformer_impl)

        _moe_token_dispatcher_type = d.pop("moe_token_dispatcher_type", UNSET)
        moe_token_dispatcher_type: TokenDispatcher | Unset
        if isinstance(_moe_token_dispatcher_type, Unset):
            moe_token_dispatcher_type = UNSET
        else:
            moe_token_dispatcher_type = check_token_dispatcher(_moe_token_dispatcher_type)

        moe_grouped_gemm = d.pop("moe_grouped_gemm", UNSET)

        gradient_accumulation_fusion = d.pop("gradient_accumulation_fusion", UNSET)

        masked_softmax_fusion = d.pop("masked_softmax_fusion", UNSET)

        attention_softmax_in_fp32 = d.pop("attention_softmax_in_fp32", UNSET)

        _cross_entropy_fusion_impl = d.pop("cross_entropy_fusion_impl", UNSET)
        cross_entropy_fusion_impl: CrossEntropyFusion | Unset
        if isinstance(_cross_entropy_fusion_impl, Unset):
            cross_entropy_fusion_impl = UNSET
        else:
            cross_entropy_fusion_impl = check_cross_entropy_fusion(_cross_entropy_fusion_impl)

        create_attention_mask = d.pop("create_attention_mask", UNSET)

        mtp_num_layers = d.pop("mtp_num_layers", UNSET)

        defer_embedding_wgrad_compute = d.pop("defer_embedding_wgrad_compute", UNSET)

        wgrad_deferral_limit = d.pop("wgrad_deferral_limit", UNSET)

        megatron_request = cls(
            transformer_impl=transformer_impl,
            moe_token_dispatcher_type=moe_token_dispatcher_type,
            moe_grouped_gemm=moe_grouped_gemm,
            gradient_accumulation_fusion=gradient_accumulation_fusion,
            masked_softmax_fusion=masked_softmax_fusion,
            attention_softmax_in_fp32=attention_softmax_in_fp32,
            cross_entropy_fusion_impl=cross_entropy_fusion_impl,
            create_attention_mask=create_attention_mask,
            mtp_num_layers=mtp_num_layers,
            defer_embedding_wgrad_compute=defer_embedding_wgrad_compute,
            wgrad_deferral_limit=wgrad_deferral_limit,
        )

        return megatron_request

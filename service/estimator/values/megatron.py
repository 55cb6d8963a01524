"""Words of Megatron-LM alone: layers, experts, what is fused."""

from dataclasses import dataclass
from enum import StrEnum

from service.estimator.values.batches import check_at_least
from service.estimator.values.errors import InvalidInputError


class TransformerImpl(StrEnum):
    """Layers of ``--transformer-impl``."""

    TRANSFORMER_ENGINE = "transformer_engine"
    LOCAL = "local"
    """Megatron Core's own: its linear layers, and scores that are kept."""


class TokenDispatcher(StrEnum):
    """Ways of tokens to their experts (``--moe-token-dispatcher-type``)."""

    ALLTOALL = "alltoall"
    """rows are sent to the ranks of their experts"""
    ALLGATHER = "allgather"
    """every expert rank gathers all tokens, and takes those of its experts"""


class CrossEntropyFusion(StrEnum):
    """Kernels of a fused cross entropy (``--cross-entropy-fusion-impl``)."""

    TE = "te"
    NATIVE = "native"
    """Megatron Core's own, compiled, which copies the softmax in backward"""


@dataclass(frozen=True, slots=True, kw_only=True)
class MegatronOptions:
    """Arguments of Megatron-LM, by its names and with its meanings."""

    transformer_impl: TransformerImpl = TransformerImpl.TRANSFORMER_ENGINE
    moe_token_dispatcher_type: TokenDispatcher = TokenDispatcher.ALLTOALL
    moe_grouped_gemm: bool = True
    gradient_accumulation_fusion: bool = True
    masked_softmax_fusion: bool = True
    """Of local layers: one kernel scales, masks and normalises scores."""
    attention_softmax_in_fp32: bool = False
    """Of local layers without that kernel: scores are made fp32."""
    cross_entropy_fusion_impl: CrossEntropyFusion = CrossEntropyFusion.TE
    """Of loss ``fused_cross_entropy``."""
    create_attention_mask: bool = True
    """The data loader makes a mask for each sequence."""
    mtp_num_layers: int = 0
    """Layers that predict further tokens, on the last stage."""
    defer_embedding_wgrad_compute: bool = False
    wgrad_deferral_limit: int = 0
    """Micro-batches whose gradient of the head waits; 0 is all of a step."""

    def __post_init__(self) -> None:
        """Refuse counts below zero, and what Megatron Core refuses.

        (``core/model_parallel_config.py``.)
        """
        check_at_least("workload.megatron.mtp_num_layers", self.mtp_num_layers, 0)
        check_at_least("workload.megatron.wgrad_deferral_limit", self.wgrad_deferral_limit, 0)
        if self.defer_embedding_wgrad_compute and not self.gradient_accumulation_fusion:
            message = (
                "defer_embedding_wgrad_compute needs gradient_accumulation_fusion "
                "(megatron/core/model_parallel_config.py)"
            )
            raise InvalidInputError(
                message, field="workload.megatron.defer_embedding_wgrad_compute"
            )

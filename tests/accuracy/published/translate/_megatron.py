"""Words of Megatron-LM alone."""

from collections.abc import Mapping
from typing import Any


def read_options(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the words of Megatron-LM alone, by its defaults (arguments.py)."""
    scaled = bool(arguments.get("--apply-query-key-layer-scaling"))
    options: dict[str, Any] = {
        "transformer_impl": arguments.get("--transformer-impl", "transformer_engine"),
        "gradient_accumulation_fusion": not arguments.get("--no-gradient-accumulation-fusion"),
        "masked_softmax_fusion": not arguments.get("--no-masked-softmax-fusion"),
        "attention_softmax_in_fp32": scaled or bool(arguments.get("--attention-softmax-in-fp32")),
        "cross_entropy_fusion_impl": arguments.get("--cross-entropy-fusion-impl", "native"),
        "create_attention_mask": not arguments.get("--no-create-attention-mask-in-dataloader"),
        "mtp_num_layers": arguments.get("--mtp-num-layers", 0),
        "defer_embedding_wgrad_compute": bool(arguments.get("--defer-embedding-wgrad-compute")),
        "wgrad_deferral_limit": arguments.get("--wgrad-deferral-limit", 0),
    }
    if arguments.get("--num-experts"):
        options |= {
            "moe_token_dispatcher_type": arguments.get("--moe-token-dispatcher-type", "allgather"),
            "moe_grouped_gemm": bool(arguments.get("--moe-grouped-gemm")),
        }
    return options

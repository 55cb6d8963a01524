"""Configurations of MPT that LLM Foundry ran under FSDP: each row says that it fits, none how much
it takes.

The shapes are those whose parameters add up to the stated count to the unit: GPT with learned
positions, biases everywhere, a vocabulary of 50368 and a tied head (llm-foundry's
``configuration_mpt.py`` with ``no_bias: false``).
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable

_SHAPES = {
    "MPT 125m": (768, 12, 12),
    "MPT 350m": (1024, 16, 24),
    "MPT 760m": (1536, 12, 24),
    "MPT 1b": (2048, 16, 24),
    "MPT 3b": (2560, 20, 32),
    "MPT 7b": (4096, 32, 32),
    "MPT 13b": (5120, 40, 40),
}
"""Hidden size, heads and layers."""
_VOCABULARY = 50368
_GPUS = {
    "a100_40gb": "A100-SXM4-40GB",
    "a100_80gb": "A100-SXM4-80GB",
    "h100_80gb": "H100-SXM5-80GB",
}
_REDUCED_IN = {"DEFAULT": "fp32", "PURE": "bf16"}
"""Composer's ``mixed_precision``: parameters are gathered in bf16 in both, gradients are reduced in
one or the other.
"""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield one run; the optimizer is one of the yamls', of which AdamW keeps most."""
    if "fp8" in row["precision"]["policy"]:
        raise Untranslatable("fp8 products of Transformer Engine under FSDP")
    batch = row["batch"]
    yield {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "fit",
        "source": f"{row['source']['repo']}@{row['source']['commit']}/{row['source']['path']}",
        "model": {"architecture": _architecture(row)},
        "workload": {
            "task": "train",
            "framework": "transformers",
            "precision": {
                "param_dtype": "fp32",
                "compute_dtype": "bf16",
                "grad_dtype": "fp32",
                "optimizer_dtype": "fp32",
                "reduce_dtype": _REDUCED_IN[row["precision"]["mp_mode"]],
            },
            "optimizer": "adamw_loop",
            "sequence_length": batch["seq_len"],
            "micro_batch_size": batch["micro_batch"],
            "gradient_accumulation_steps": batch["grad_accum"],
            "attention": "flash",
            "loss": "flash_cross_entropy",
            "activation_checkpointing": row["checkpointing"],
        },
        "layout": {
            "data_parallel": row["parallelism"]["dp_shard"],
            "sharding": "fsdp2",
            "zero_stage": 3,
        },
        "gpu": _GPUS[row["hardware"]["gpu"]],
        "outcome": row["outcome"],
        "readings": [],
    }


def _architecture(row: Mapping[str, Any]) -> dict[str, Any]:
    hidden, heads, layers = _SHAPES[row["model"]["name"]]
    sequence = row["batch"]["seq_len"]
    tables = (_VOCABULARY + sequence) * hidden
    counted = tables + layers * (12 * hidden * hidden + 9 * hidden) + 2 * hidden * (2 * layers + 1)
    if counted != row["model"]["params_stated"]:
        raise Untranslatable("a shape whose parameters do not add up to the stated count")
    return {
        "family": "gpt2",
        "vocab_size": _VOCABULARY,
        "hidden_size": hidden,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "head_dim": hidden // heads,
        "intermediate_size": 4 * hidden,
        "activation": "gelu",
        "norm": "layer",
        "gated": False,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "fused_projections": True,
        "rotary": False,
        "max_position_embeddings": sequence,
    }

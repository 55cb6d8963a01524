"""Table 5 of arXiv:2205.05198, runs that fitted on A100s of 80 GB, and GaLore's 7B on one RTX 4090.

The other figures of that paper are computed, not read off a GPU: they are formulas to compare with,
not measurements.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable

_VOCABULARY = 51200
"""The paper's, section 6; Calculon's files leave it out."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run of the table: scores are materialised, as before flash attention, and may be
    computed again.
    """
    if row["score_class"] == "formula_check":
        raise Untranslatable("a figure that was computed, not measured")
    if row["software"]["framework"] != "Megatron-LM (2022)":
        raise Untranslatable("8-bit GaLore, layer by layer")
    parallel, batch = row["parallelism"], row["batch"]
    yield {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "fit",
        "source": f"{row['source']['repo']}@{row['source']['commit']}/{row['source']['path']}",
        "model": {"architecture": _architecture(row["model"]["arch"], batch["seq_len"])},
        "workload": {
            "task": "train",
            "framework": "megatron",
            "precision": "bf16_mixed",
            "optimizer": "adamw",
            "sequence_length": batch["seq_len"],
            "micro_batch_size": batch["micro_batch"],
            "gradient_accumulation_steps": batch["global_batch"]
            // (batch["micro_batch"] * parallel["dp"]),
            "attention": "eager",
            "activation_checkpointing": "full" if row["checkpointing"] == "full" else "selective",
        },
        "layout": {
            "data_parallel": parallel["dp"],
            "tensor_parallel": parallel["tp"],
            "pipeline_parallel": parallel["pp"],
            "virtual_pipeline_stages": parallel["interleaving"],
            "sequence_parallel": parallel["sequence_parallel"],
            "sharding": "megatron",
        },
        "gpu": "A100-SXM4-80GB",
        "outcome": row["outcome"],
        "readings": [],
    }


def _architecture(arch: Mapping[str, Any], sequence: int) -> dict[str, Any]:
    return {
        "family": "gpt2",
        "vocab_size": _VOCABULARY,
        "hidden_size": arch["hidden"],
        "num_hidden_layers": arch["layers"],
        "num_attention_heads": arch["heads"],
        "num_key_value_heads": arch["kv_heads"],
        "head_dim": arch["head_dim"],
        "intermediate_size": arch["intermediate"],
        "activation": "gelu",
        "norm": "layer",
        "gated": False,
        "tie_word_embeddings": True,
        "attention_bias": True,
        "attention_output_bias": True,
        "mlp_bias": True,
        "rotary": False,
        "max_position_embeddings": sequence,
        "attention_dropout": 0.1,
        "residual_dropout": 0.1,
        "embedding_dropout": 0.1,
    }

"""Axolotl's example READMEs: HF models under its trainer; which quantity they quote is not
stated.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import adapters, autocast, case


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the run as a question; its cut cross entropy makes no logits, as the contract's
    ``fused_linear`` does not.
    """
    config, batch = row["framework_config"], row["batch"]
    if "processor_type" in config or config.get("quantize_moe_experts"):
        message = "images, or experts quantised by the trainer"
        raise Untranslatable(message)
    if row["task"] == "full_finetune":
        message = "parameters frozen by a pattern"
        raise Untranslatable(message)
    workload = {
        "method": row["task"],
        "precision": autocast("bf16"),
        "optimizer": "adamw_8bit",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "gradient_accumulation_steps": batch["grad_accumulation"],
        "activation_checkpointing": "full",
        "attention": "flash",
        "loss": "fused_linear",
        "fp32_norms_and_head": True,
        "lora": adapters(row),
    }
    yield case(row, workload, {}, scores_as="adapters")

"""Llama 2 70B fine-tuned on 32 A100 by the HF Trainer and DeepSpeed's stage 3: device bytes as
nvidia-smi shows them.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import case


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a run; that layers were recomputed follows from its size: what they keep is more than
    the card has.
    """
    if row["kind"] != "measured":
        message = "a formula, not a run"
        raise Untranslatable(message)
    batch, parallel = row["batch"], row["parallelism"]
    workload = {
        "precision": "bf16_mixed",
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "gradient_accumulation_steps": batch["grad_accum"],
        "sequence_length": batch["seq_len"],
        "activation_checkpointing": "full",
        "attention": "flash",
    }
    layout = {
        "data_parallel": parallel["dp"],
        "zero_stage": parallel["zero_stage"],
        "sharding": "deepspeed",
    }
    yield case(row, workload, layout, scores_as="training", gpu="A100-SXM4-80GB")

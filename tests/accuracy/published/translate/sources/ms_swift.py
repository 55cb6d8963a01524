"""ms-swift's example scripts: what their authors wrote at the top of each, rounded by hand.

Only runs of the transformers trainer on text, whose number of GPUs changes nothing or is known to
be one, packed to their length: the others stay below ``--max_length`` by an amount that nobody
states.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import adapters, autocast, case


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the run as a question."""
    batch = row["batch"]
    if row["parallelism"]["kind"] != "DDP or single":
        message = "the number of GPUs is not stated"
        raise Untranslatable(message)
    if not batch["packing"]:
        message = "the length of the samples is not stated, only its bound"
        raise Untranslatable(message)
    adapts = row["task"] != "full_finetune"
    workload = {
        "method": row["task"] if adapts else "full",
        "fp32_norms_and_head": False,
        "precision": autocast("bf16") if adapts else "bf16",
        "optimizer": "adamw_fused",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "gradient_accumulation_steps": int(batch["grad_accum"]),
        "activation_checkpointing": "full",
        "attention": "flash",
    }
    if row["cross_entropy"] == "liger":
        # ``--use_liger_kernel``. The script evaluates a part of its dataset every ``--eval_steps``,
        # one sequence at once; outside of training Liger's heads make whole logits.
        workload["kernels"] = "liger"
        workload["evaluation"] = {"batch_size": 1, "kept_batches": 0, "loss": "full_logits"}
    if adapts:
        workload["lora"] = adapters(row)
    yield case(row, workload, {}, scores_as="adapters" if adapts else "training")

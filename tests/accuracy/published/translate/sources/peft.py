"""PEFT's own benchmark (Llama-3.2-3B on MetaMathQA) and its documentation's runs of Llama-2-70B.

The benchmark pads each batch to its longest sample, 768 tokens at most, and nobody states how long
the longest batch was: only full fine-tuning, whose peak is the optimizer's, does not depend on it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import adapters, autocast, case


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the run as a question."""
    if row["id"].startswith("peft_70b"):
        yield _documented(row)
        return
    if row["task"] not in {"lora", "peft_other", "full_finetune"} or row["outcome"] != "ok":
        message = "sequence length and batch are not stated"
        raise Untranslatable(message)
    if row["task"] != "full_finetune":
        message = "the longest batch, which sets the peak, is not stated: at most 768 tokens"
        raise Untranslatable(message)
    batch = row["batch"]
    workload = {
        "method": "full",
        "precision": "bf16",
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "gradient_accumulation_steps": batch["grad_accum"],
        "padding_mask": True,
        "keeps_logits": True,
    }
    yield case(row, workload, {}, scores_as="training")


def _documented(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run of the documentation: TRL's trainer under bf16 on ZeRO-3 or FSDP, read off a
    monitor.
    """
    if row["parallelism"].get("cpu_offload"):
        message = "parameters and gradients offloaded by FSDP1, unit by unit"
        raise Untranslatable(message)
    batch, parallel = row["batch"], row["parallelism"]
    workload = {
        "method": row["task"],
        "fp32_norms_and_head": False,  # TRL does not call prepare_model_for_kbit_training
        "precision": autocast("bf16"),
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "gradient_accumulation_steps": batch["grad_accum"],
        "activation_checkpointing": "full",
        "reentrant_checkpointing": row["checkpointing"] == "full (reentrant)",
        "lora": adapters(row),
    }
    sharding = "deepspeed" if "DeepSpeed" in parallel["kind"] else "fsdp1"
    return case(
        row,
        workload,
        {"data_parallel": parallel["dp"], "sharding": sharding, "zero_stage": 3},
        scores_as="adapters",
    )

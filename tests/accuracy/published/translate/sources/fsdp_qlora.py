"""Answer.AI's FSDP + QLoRA benchmarks (March 2024): ``train.py`` of that repository.

Its defaults: rank 64 on all linear layers but one, everything in bf16, adapters too (PEFT 0.9 made
them in the dtype of the layer), AdamW, checkpointing of every layer (not reentrant), a loop that
still holds the outputs.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import case

_TARGETS = ["down_proj", "gate_proj", "k_proj", "q_proj", "up_proj", "v_proj"]
"""What ``--lora_target_modules all`` stands for; the attention's output has no adapter."""
_RANK = 64
_TRANSFORMERS = "4.38.2"
"""The release of March 2024; all before 4.45 compute the loss alike."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the run as a question; raise Untranslatable for one with offloaded parameters."""
    parallel, batch = row["parallelism"], row["batch"]
    if parallel["cpu_offload"]:
        message = "parameters and gradients offloaded by FSDP1, unit by unit"
        raise Untranslatable(message)
    workload = {
        "framework_version": _TRANSFORMERS,
        "method": row["task"],
        "fp32_norms_and_head": False,  # its train.py loads and casts by itself
        "precision": "bf16",
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "activation_checkpointing": "full",
        "keeps_logits": True,
        "gradient_clipping": True,
        "lora": {"rank": _RANK, "dtype": "bf16", "target_modules": _TARGETS},
    }
    shards = (
        {"sharding": "fsdp1", "zero_stage": 3} if parallel["dp_shard"] > 1 else {"sharding": "ddp"}
    )
    yield case(row, workload, {"data_parallel": parallel["dp"], **shards}, scores_as="adapters")

"""Arctic long-sequence training: Llama 3.1 8B on one GPU with everything offloaded by DeepSpeed's
stage 3, device bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import case

_FULL_LOGITS = "standard on full logits"
_SAME_SHAPE = {"meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Meta-Llama-3-8B"}
_CARDS = {"NVIDIA H100": "H100-SXM5-80GB", "NVIDIA H200": "H200-SXM5-141GB"}


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the step of a recipe on one GPU; Ulysses' sequence parallelism and tiled layers have no
    words.
    """
    parallel, batch = row["parallelism"], row["batch"]
    if parallel["sequence_parallel"] > 1 or row["kernels"]:
        message = "Ulysses' sequence parallelism, tiled logits or tiled feed-forward layers"
        raise Untranslatable(message)
    if row["cross_entropy"] != _FULL_LOGITS:
        message = "Liger's kernels for norms, rotation and feed-forward layers beside its loss"
        raise Untranslatable(message)
    if row["model"]["hf_id"] not in _SAME_SHAPE:
        message = "a model whose config is not known here"
        raise Untranslatable(message)
    offload = {"optimizer": "cpu", "parameters": "cpu" if parallel["offload_param"] else "none"}
    workload = {
        "precision": "bf16_mixed",
        "optimizer": "adamw",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "activation_checkpointing": "full",
        "loss": "full_logits",
        "attention": "flash",
        "offload": offload
        | ({"activations": "cpu"} if "offloaded" in row["checkpointing"] else {}),
    }
    shape = row["model"] | {"hf_id": _SAME_SHAPE[row["model"]["hf_id"]]}
    scores_as = "training" if row["score_class"] == "memory" else "fit"
    card = _CARDS[row["hardware"]["gpu"]]
    yield case(
        {**row, "model": shape},
        workload,
        {"zero_stage": 3, "sharding": "deepspeed"},
        scores_as=scores_as,
        gpu=card,
    )

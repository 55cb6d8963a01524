"""torchtune's readme: a ladder of options on Llama 3.2 3B, each row with one technique more, active
bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import case

_LADDER = "torchtune README: optimization flags ladder"
_QUANTITIES = ("active_bytes_peak",)


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a full fine-tuning of the ladder, whose packed sequences have a stated length.

    torchtune's blocks are torchtitan's: norms in fp32, complex rotation, keys repeated; its loss
    keeps a list of logits.
    """
    if row["source"]["title"] != _LADDER or not row["batch"]["packing"]:
        message = "lengths of samples, the optimizer or what is recomputed are not stated"
        raise Untranslatable(message)
    if row["task"] != "full_finetune":
        message = "torchtune's own adapters and NF4 tensors"
        raise Untranslatable(message)
    batch, optimizer = row["batch"], row["optimizer"]
    workload = {
        "framework": "torchtitan",
        "precision": "bf16",
        "optimizer": "adamw_8bit" if optimizer["state_dtype"] == "8-bit" else "adamw_fused",
        "micro_batch_size": batch["micro_batch"],
        "sequence_length": batch["seq_len"],
        "activation_checkpointing": row["checkpointing"],
        "loss": "chunked" if row["cross_entropy"].startswith("chunked") else "full_logits",
        **({"compile": True} if row["compile"] else {}),
        **({"optimizer_in_backward": True} if optimizer["in_backward"] else {}),
        **({"offload": {"activations": "cpu"}} if "offloading" in row["notes"].lower() else {}),
    }
    read = [
        {
            "quantity": measured["quantity"],
            "low": measured["bytes_low"],
            "high": measured["bytes_high"],
        }
        for measured in row["measured"]
        if measured["quantity"] in _QUANTITIES
    ]
    yield case(row, workload, {}, scores_as="training", readings=read)

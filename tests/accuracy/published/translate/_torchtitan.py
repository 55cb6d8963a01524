"""Runs of torchtitan and of torchtune, whose models are written alike, in the words of the
contract.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._training import GIB, Row, case

MIXED = {
    "param_dtype": "fp32",
    "compute_dtype": "bf16",
    "grad_dtype": "fp32",
    "optimizer_dtype": "fp32",
}
"""torchtitan's default: fp32 shards, cast when they are gathered, reduced in fp32."""
_CHECKPOINTING: Mapping[str, Any] = {
    "none": "none",
    "full": "full",
    "selective": "selective",
    "selective, per op": "selective",
    "selective op": "selective",
    "selective layer": {"selective": 2},
    "selective per layer (every 2nd layer)": {"selective": 2},
}
"""``selective_ac_option``: single operations, or every n-th layer, by default every second one."""
_UNITS_SINCE = "2025-08"
"""From pull request 1094 on, the embedding is a unit of its own, and final norm and head are
another.
"""
_CARDS = {
    "NVIDIA H100": 80,
    "NVIDIA A100 80GB": 80,
    "NVIDIA H100 SXM (HBM2e variant)": 96,
    "NVIDIA H200": 141,
}


def titan_case(
    row: Row,
    *,
    sequence_length: int,
    dated: str,
    formats: Mapping[str, Any],
    **fields: Any,  # noqa: ANN401 - fields of a case
) -> dict[str, Any]:
    """Return a pre-training step of torchtitan; ``dated`` is when its code was of that state."""
    parallel, batch = row["parallelism"], row["batch"]
    if row["checkpointing"] not in _CHECKPOINTING:
        message = "what is recomputed is not stated"
        raise Untranslatable(message)
    workload = {
        "framework": "torchtitan",
        "framework_version": dated,
        "precision": MIXED,
        "optimizer": "adamw_fused",
        "micro_batch_size": batch["micro_batch"] or 1,
        "sequence_length": sequence_length,
        "activation_checkpointing": _CHECKPOINTING[row["checkpointing"]],
        **formats,
    }
    layout = {
        "data_parallel": parallel["dp_shard"],
        "context_parallel": parallel.get("cp", 1),
        "tensor_parallel": parallel.get("tp", 1),
        "sharding": "fsdp2",
        **({"shard_embeddings_separately": True} if dated >= _UNITS_SINCE else {}),
    }
    card = {"memory_bytes": _CARDS.get(row["hardware"]["gpu"], 80) * GIB}
    return case(row, workload, layout, **({"scores_as": "training", "gpu": card} | fields))


def float8_of(policy: str, *, compiled: bool) -> dict[str, Any]:
    """Return the words of a number format; raise Untranslatable for those that the contract has no
    word for.
    """
    if any(name in policy.lower() for name in ("mxfp8", "nvfp4", "nocompile")):
        message = "products in MXFP8, NVFP4 or by a prototype, for which there is no word"
        raise Untranslatable(message)
    return ({"compile": True} if compiled else {}) | (
        {"float8": True} if "float8" in policy else {}
    )


def titan_rows(row: Row, *, dated: str, sequence_length: int | None) -> Iterator[dict[str, Any]]:
    """Yield the step of a row whose length is stated here or there."""
    length = row["batch"].get("seq_len") or sequence_length
    if length is None:
        message = "the length of its sequences is not stated"
        raise Untranslatable(message)
    formats = float8_of(row["precision"]["policy"], compiled=bool(row["compile"]))
    scores_as = "training" if row["measured"] else "fit"
    yield titan_case(row, sequence_length=length, dated=dated, formats=formats, scores_as=scores_as)

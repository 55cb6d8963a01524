"""What the sources of training runs have in common: models, cards, adapters, layouts and readings
in the contract's words.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from service.catalog.models import find_model
from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._hub import model_named

Row = Mapping[str, Any]
GIB = 2**30

_SAME_CONFIG = {
    "NousResearch/Llama-2-70b-hf": "llama-2-70b",
    "Qwen/Qwen2.5-3B": "qwen2.5-3b",
    "Qwen/Qwen2.5-3B-Instruct": "qwen2.5-3b",
    "Qwen/Qwen2.5-14B": "qwen2.5-14b",
}
"""Repositories whose config.json has the shape of a model of the catalogue."""
_QWEN_7B = "Qwen/Qwen2.5-7B-Instruct"
_CARDS = {
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA L40S": "L40S",
    "NVIDIA RTX 3090": "RTX-3090",
    "NVIDIA RTX 4090": "RTX-4090",
}


def model_of(row: Row, name: str | None = None) -> Any:  # noqa: ANN401 - a catalogue name or an inline model
    """Return what a request says for the row's model; raise Untranslatable where its config is not
    known here.
    """
    name = name or row["model"]["hf_id"] or row["model"]["name"]
    if name == "Qwen/Qwen2.5-7B":
        name = _QWEN_7B
    known = find_model(_SAME_CONFIG.get(name, name))
    return known.name if known is not None else model_named(name)


def card_of(row: Row) -> Any:  # noqa: ANN401 - a catalogue name or a size
    """Return the row's card: one of the catalogue, or one of 80 GiB where the source does not
    say.
    """
    return _CARDS.get(row["hardware"].get("gpu"), {"memory_bytes": 80 * GIB})


def case(
    row: Row,
    workload: Mapping[str, Any],
    layout: Mapping[str, Any],
    *,
    scores_as: str,
    **fields: Any,  # noqa: ANN401 - fields of a case
) -> dict[str, Any]:
    """Return a case as it is written down; readings whose bytes the source does not give are left
    out.
    """
    source = row["source"]
    return {
        "id": row["id"],
        "group": row["weight_group"],
        "class": scores_as,
        "source": f"{source['repo']}@{source['commit']}/{source['path']}"
        if source.get("commit")
        else source["url"],
        "model": model_of(row),
        "workload": {"task": "train", **workload},
        "layout": dict(layout),
        "gpu": card_of(row),
        "outcome": row["outcome"],
        "readings": list(readings(row)) if row["outcome"] == "ok" else [],
    } | fields


def readings(row: Row) -> Iterator[dict[str, Any]]:
    """Yield the readings that an answer has a figure for."""
    for measured in row["measured"]:
        if measured["quantity"] in _QUANTITIES and measured.get("bytes_low") is not None:
            yield {
                "quantity": measured["quantity"],
                "low": measured["bytes_low"],
                "high": measured["bytes_high"],
            }


_QUANTITIES = {
    "max_memory_allocated",
    "max_memory_reserved",
    "memory_allocated_steady",
    "nvidia-smi",
    "unknown",
}


def adapters(row: Row, *, dtype: str = "fp32") -> dict[str, Any]:
    """Return the words of the row's low-rank adapters."""
    lora = row["lora"] or {}
    if lora.get("rank") is None:
        message = "the rank of the adapters is not stated"
        raise Untranslatable(message)
    targets = lora.get("targets")
    if targets not in (None, "all-linear", "all") and not isinstance(targets, list):
        message = "the adapters' targets are a pattern"
        raise Untranslatable(message)
    named = {"target_modules": sorted(targets)} if isinstance(targets, list) else {}
    variant = {"variant": "dora"} if lora.get("use_dora") else {}
    drops = {"dropout": lora["dropout"]} if lora.get("dropout") else {}
    return {"rank": int(lora["rank"]), "dtype": dtype, **named, **variant, **drops}


def autocast(dtype: str) -> dict[str, Any]:
    """Return the policy of a trainer that loads 16-bit weights and turns autocast to the same
    format on.
    """
    return {
        "param_dtype": dtype,
        "compute_dtype": dtype,
        "autocast": True,
        "grad_dtype": dtype,
        "optimizer_dtype": "fp32",
    }

"""What rows of generated text have in common: one replica of transformers, its formats, and the
figures that are kept.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._hub import model_named, quantised

Row = Mapping[str, Any]

_MEMORY = frozenset(
    {"max_memory_allocated", "max_memory_reserved", "nvidia-smi", "nvml", "unknown"}
)
GPUS: Mapping[str, str] = {
    "NVIDIA A100 80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-80GB": "A100-SXM4-80GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
    "NVIDIA A100-PCIE-40GB": "A100-PCIE-40GB",
    "NVIDIA GeForce RTX 4090": "RTX-4090",
    "NVIDIA RTX 4090": "RTX-4090",
    "NVIDIA GeForce RTX 3090": "RTX-3090",
    "NVIDIA RTX A6000": "RTX-A6000",
}
LARGE_GPU: Mapping[str, Any] = {"memory_bytes": 80 * 1024**3}
"""Stands in where a source names no GPU: then nothing but allocated and reserved bytes is read."""
GPTQ4: Mapping[str, Any] = {
    "quant_method": "gptq",
    "bits": 4,
    "group_size": 128,
    "sym": True,
    "desc_act": False,
}
GPTQ8: Mapping[str, Any] = {**GPTQ4, "bits": 8}
AWQ: Mapping[str, Any] = {
    "quant_method": "awq",
    "bits": 4,
    "group_size": 128,
    "zero_point": True,
    "version": "gemm",
}
NF4: Mapping[str, Any] = {
    "quant_method": "bitsandbytes",
    "load_in_4bit": True,
    "bnb_4bit_quant_type": "nf4",
}
NF4_DOUBLE: Mapping[str, Any] = {**NF4, "bnb_4bit_use_double_quant": True}
INT8: Mapping[str, Any] = {"quant_method": "bitsandbytes", "load_in_8bit": True}


def case(
    row: Row, name: str, workload: Mapping[str, Any], scheme: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a case of one GPU; raise Untranslatable where several hold the model or nothing of
    memory was read.
    """
    if (row["hardware"].get("count") or 1) > 1:
        message = "layers spread over several GPUs by device_map"
        raise Untranslatable(message)
    readings = list(memory_readings(row))
    if not readings and row["outcome"] == "ok":
        message = "no figure of memory"
        raise Untranslatable(message)
    source = row["source"]
    return {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "inference",
        "source": f"{source['repo']}@{source.get('commit')}/{source.get('path')}"
        if source.get("repo")
        else str(source.get("url")),
        "model": model_named(name) if scheme is None else quantised(name, scheme),
        "workload": {"task": "serve", "engine": "transformers", **workload},
        "layout": {},
        "gpu": GPUS.get(row["hardware"].get("gpu") or "", LARGE_GPU),
        "outcome": row["outcome"],
        "readings": readings,
    }


def memory_readings(row: Row) -> Iterator[dict[str, Any]]:
    """Yield the figures of memory with their bounds."""
    for reading in row["measured"]:
        if reading["quantity"] in _MEMORY and reading.get("bytes_low") is not None:
            yield {
                "quantity": reading["quantity"],
                "low": reading["bytes_low"],
                "high": reading["bytes_high"],
            }

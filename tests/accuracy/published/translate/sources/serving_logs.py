"""Start-up logs of serving engines found in issues and pull requests."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._hub import model_named

_QUANTITIES = frozenset(
    {"weights_memory", "activation_peak", "cuda_graph_memory", "kv_cache_memory"}
)
_GIB = 1024**3
_GPUS = {
    "NVIDIA T4 (14.56 GiB, XFormers backend)": "T4",
    "NVIDIA RTX A6000": "RTX-A6000",
    "NVIDIA H100 NVL": "H100-NVL-94GB",
    "NVIDIA A100-SXM4-40GB": "A100-SXM4-40GB",
}
_FORMATS = {"fp16": "fp16", "bf16": "bf16", None: "bf16"}
_SGLANG = {
    "sgl_qwen3_14b_tp4": ("RTX-4090", "0.5.9", 4),
    "sgl_qwen3_06b_16g": ("RTX-5080", "0.4.10", 1),
    "sgl_l31_8b_80g_jan": ("H100-SXM5-80GB", "0.4.1", 1),
    "sgl_l31_8b_pr4760": ("H100-SXM5-80GB", "0.4.4", 1),
}
"""Cards that the pages of SGLang's logs name, the release of their month, and the ranks: what a
desktop leaves of a card is in no log.
"""
_UNNAMED = {
    "0.6.x V0": "0.6.5",
    "0.6.5 dev (Dec 2024)": "0.6.5",
    "V0 (Mar 2025 log)": "0.7.3",
    "V0 (May 2025 log)": "0.8.5",
    "V1 (2026)": "0.19.0",
}


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a server of vLLM or SGLang whose memory and fraction its log or page states."""
    if row["id"] in _SGLANG:
        yield _sglang_case(row)
        return
    framework, serving, hardware = row["software"]["framework"], row["serving"], row["hardware"]
    if framework not in {"vLLM", "SGLang"}:
        message = "an engine of its own"
        raise Untranslatable(message)
    stated = hardware.get("total_gib") is not None and "gpu_memory_utilization" in serving
    if framework == "SGLang" or not (stated or hardware.get("gpu") in _GPUS):
        message = (
            "the log does not say how much memory the GPU has, or which part of it the engine takes"
        )
        raise Untranslatable(message)
    if row["id"] == "vllm_l3_8b_a100_40":
        message = "limits of the batch that the log does not state"
        raise Untranslatable(message)
    if "2060" in (hardware.get("gpu") or ""):
        message = "a GPU of compute capability 7.5 that the catalogue lacks"
        raise Untranslatable(message)
    if row.get("quantization") or "ROCm" in (hardware.get("gpu") or ""):
        message = "GGUF weights in vLLM, or ROCm"
        raise Untranslatable(message)
    yield _case(row, serving)


def _sglang_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the case of a log that prints its pool alone: what loading took is more than the
    weights.
    """
    gpu, version, ranks = _SGLANG[row["id"]]
    fraction = row["serving"].get("mem_fraction_static")
    pools = {"kv_cache_memory", "kv_cache_tokens"}
    return {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "sglang",
        "source": str(row["source"].get("url") or row["source"].get("title")),
        "model": model_named(row["model"]["hf_id"].replace("Meta-Llama-3.1-8B", "Llama-3.1-8B")),
        "workload": {
            "task": "serve",
            "engine": "sglang",
            "engine_version": version,
            "num_sequences": 1,
            "prompt_tokens": 1024,
            "weight_dtype": "bf16",
        }
        | ({} if fraction is None else {"gpu_memory_fraction": fraction}),
        "layout": {"tensor_parallel": ranks},
        "gpu": gpu,
        "outcome": row["outcome"],
        "readings": [one for one in _readings(row) if one["quantity"] in pools],
    }


def _case(row: Mapping[str, Any], serving: Mapping[str, Any]) -> dict[str, Any]:
    longest, dtype = serving["max_model_len"], (row["precision"] or {}).get("compute")
    workload = {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": 1,
        "prompt_tokens": min(longest, 1024),
        "max_model_len": longest,
        "weight_dtype": _FORMATS[dtype],
    }
    workload["engine_version"] = _version(row["software"]["version"])
    if "gpu_memory_utilization" in serving:
        workload["gpu_memory_fraction"] = serving["gpu_memory_utilization"]
    if "max_num_seqs" in serving:
        workload["max_num_sequences"] = serving["max_num_seqs"]
    source = row["source"]
    gpu = _GPUS.get(row["hardware"].get("gpu") or "")
    return {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "vllm",
        "source": str(source.get("url") or source.get("title")),
        "model": model_named(row["model"]["hf_id"]),
        "workload": workload,
        "layout": {"tensor_parallel": row["parallelism"].get("tp", 1)},
        "gpu": gpu or {"memory_bytes": round(row["hardware"]["total_gib"] * _GIB)},
        "outcome": "ok" if _starts(row) else "oom",
        "readings": list(_readings(row)),
    }


def _version(stated: str) -> str:
    """Return the release: of a log that names only an engine the one of its month."""
    if stated in _UNNAMED:
        return _UNNAMED[stated]
    found = re.match(r"(\d+\.\d+)\.(\d+|x)", stated)
    if found is None:
        message = "the release is not stated"
        raise Untranslatable(message)
    return f"{found[1]}.{'3' if found[2] == 'x' else found[2]}"


def _starts(row: Mapping[str, Any]) -> bool:
    """Tell whether the pool holds one sequence of the longest length: without, the engine prints
    its figures and ends.
    """
    tokens = [
        reading["value"] for reading in row["measured"] if reading["quantity"] == "kv_cache_tokens"
    ]
    return row["outcome"] == "ok" and all(
        count >= row["serving"]["max_model_len"] for count in tokens
    )


def _readings(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for reading in row["measured"]:
        if reading["quantity"] in _QUANTITIES:
            yield {
                "quantity": reading["quantity"],
                "low": reading["bytes_low"],
                "high": reading["bytes_high"],
            }
        if reading["quantity"] == "kv_cache_tokens":
            yield {"quantity": "kv_cache_tokens", "low": reading["value"], "high": reading["value"]}

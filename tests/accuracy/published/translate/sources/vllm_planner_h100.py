"""Start-up logs of vLLM 0.19.0 on H100: every component of a rank, and what its pool holds."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._hub import model_named

_WORDS = {
    "max_num_batched_tokens": "max_num_batched_tokens",
    "max_num_seqs": "max_num_sequences",
    "gpu_memory_utilization": "gpu_memory_fraction",
    "enforce_eager": "enforce_eager",
}
_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16"}
_PER_RANK = frozenset({"weights_memory", "activation_peak", "cuda_graph_memory", "kv_cache_memory"})
_POOL = frozenset({"kv_cache_tokens"})


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a server of one log: it starts when its pool holds one sequence of
    ``max_model_len``.
    """
    serving, parallel = row["serving"], row["parallelism"]
    name = row["model"]["hf_id"]
    if row["model"]["arch"].get("vision_encoder"):
        message = "a language model with a vision tower, which the engine profiles with it"
        raise Untranslatable(message)
    workload = {
        "task": "serve",
        "engine": "vllm",
        "engine_version": row["software"]["version"],
        "num_sequences": 1,
        "prompt_tokens": serving["max_model_len"],
        "max_model_len": serving["max_model_len"],
        **{word: serving[name] for name, word in _WORDS.items() if name in serving},
        **_formats(row),
    }
    yield {
        "id": row["id"],
        "group": row["weight_group"],
        "class": "vllm",
        "source": f"{row['source']['repo']}@{row['source']['commit']}/{row['source']['path']}",
        "model": model_named(name),
        "workload": workload,
        "layout": {
            "tensor_parallel": parallel["tp"],
            "pipeline_parallel": parallel["pp"],
            "data_parallel": parallel["dp"],
        },
        "gpu": "H100-SXM5-80GB",
        "outcome": row["outcome"],
        "readings": list(_readings(row)),
    }


def _formats(row: Mapping[str, Any]) -> dict[str, str]:
    precision, scheme = row["precision"], (row["quantization"] or {}).get("scheme")
    found = {"weight_dtype": _FORMATS[precision.get("compute") or "bf16"]}
    if precision.get("kv_cache") == "fp8":
        found["kv_cache_dtype"] = "fp8"
    if scheme == "fp8":
        found["quantization"] = "fp8"
    return found


def _readings(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what decides the pool: of a pipeline the figures of rank 0 are not those of the rank
    that decides.
    """
    stages = row["parallelism"]["pp"] > 1
    for reading in row["measured"]:
        quantity = reading["quantity"]
        if quantity in _PER_RANK and not stages:
            yield {"quantity": quantity, "low": reading["bytes_low"], "high": reading["bytes_high"]}
        if quantity in _POOL:
            yield {"quantity": quantity, "low": reading["value"], "high": reading["value"]}
    printed = row["serving"]["maximum_concurrency"]
    yield {"quantity": "max_concurrency", "low": printed - 0.005, "high": printed + 0.005}

"""Qwen's speed benchmarks: one sequence that generates 2,048 tokens after prompts of several
lengths.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import AWQ, GPTQ4, GPTQ8, case

_SCHEMES = {
    "GPTQ-Int8": GPTQ8,
    "GPTQ-Int4": GPTQ4,
    "AWQ": AWQ,
    "GPTQ Int8": GPTQ8,
    "GPTQ Int4": GPTQ4,
}
_MARCH_2024 = "4.38.2"
"""The newest release when Qwen1.5's page was written, which names none."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the generation of one table cell."""
    name = row["model"]["hf_id"]
    if row["task"] != "inference":
        message = "training by Qwen's own script"
        raise Untranslatable(message)
    if name.startswith("Qwen/Qwen-"):
        message = "model code of Qwen 1, which its repository brings along"
        raise Untranslatable(message)
    for suffix in ("-GPTQ-Int4", "-GPTQ-Int8", "-AWQ"):
        name = name.removesuffix(suffix)
    version = row["software"].get("version") or ""
    batch, scheme = row["batch"], (row.get("quantization") or {}).get("scheme")
    workload = {
        "num_sequences": batch["micro_batch"],
        "prompt_tokens": batch["prompt_tokens"],
        "output_tokens": batch["new_tokens"],
        "engine_version": version if version[:1].isdigit() else _MARCH_2024,
        "attention": "flash",
        "weight_dtype": "fp16" if scheme else "bf16",
    }
    yield case(row, name, workload, _SCHEMES[scheme] if scheme else None)

"""Optimum's GPTQ benchmark of August 2023: Llama-2-13B on an A100, the whole process as NVML shows
it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.translate._generating import GPTQ4, case

_AUGUST_2023 = "4.31.0"
"""The newest release when the benchmark ran; caches were tuples of tensors."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a generation or a prefill alone."""
    batch = row["batch"]
    workload = {
        "num_sequences": batch["micro_batch"],
        "prompt_tokens": batch["prompt_len"],
        "output_tokens": 0 if batch["new_tokens"] == 1 else batch["new_tokens"],
        "engine_version": _AUGUST_2023,
        "attention": "eager",
        "weight_dtype": "fp16",
    }
    yield case(row, row["model"]["hf_id"], workload, GPTQ4 if row.get("quantization") else None)

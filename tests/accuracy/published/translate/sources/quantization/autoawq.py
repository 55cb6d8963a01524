"""AutoAWQ's benchmarks: fused modules with a cache made for batch times prompt and new tokens."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.translate._generating import AWQ, case

_RELEASES = {"0.1.6": "4.35.0"}
_AUTUMN_2023 = "4.34.0"
"""The releases that these versions of AutoAWQ asked for; prefill made logits of the whole prompt.
"""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a prompt and as many new tokens."""
    batch = row["batch"]
    workload = {
        "num_sequences": batch["micro_batch"],
        "prompt_tokens": batch["prompt_tokens"],
        "output_tokens": batch["new_tokens"],
        "cache": "static",
        "engine_version": _RELEASES.get(row["software"]["version"], _AUTUMN_2023),
        "attention": "eager",
        "weight_dtype": "fp16",
    }
    # Its fused modules launch a fraction of the operations that transformers' own code does: its
    # rates are not of that code.
    yield case(row, row["model"]["hf_id"] or row["model"]["name"], workload, AWQ) | {
        "throughput": {}
    }

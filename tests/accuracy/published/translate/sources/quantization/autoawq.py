"""AutoAWQ's benchmarks: fused modules with a cache made for as many tokens as are generated.

``examples/benchmark.py`` loads with ``max_new_tokens=n_generate``, which is the length of the cache
that the fused modules make, whatever the prompt. Modules of autumn 2023 return each layer's keys
and values of the prompt beside it (``past_key_value``); later ones return empty ones.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.translate._generating import AWQ, case

_RELEASES = {"0.1.6": "4.35.0"}
_AUTUMN_2023 = "4.34.0"
"""The releases that these versions of AutoAWQ asked for; prefill made logits of the whole prompt.
"""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a prompt, and the tokens that the cache has room for beside it."""
    batch, version = row["batch"], row["software"]["version"]
    prompt, generated = batch["prompt_tokens"], batch["new_tokens"]
    workload = {
        "num_sequences": batch["micro_batch"],
        "prompt_tokens": prompt,
        "output_tokens": max(generated - prompt, 1) if version in _RELEASES else generated,
        "cache": "static",
        "engine_version": _RELEASES.get(version, _AUTUMN_2023),
        "attention": "eager",
        "weight_dtype": "fp16",
    }
    # Its fused modules launch a fraction of the operations that transformers' own code does: its
    # rates are not of that code.
    yield case(row, row["model"]["hf_id"] or row["model"]["name"], workload, AWQ) | {
        "throughput": {}
    }

"""Figures of model pages: DeepSeek LLM's table of batches and lengths, OctoCoder's post, ExLlama's
README.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import INT8, NF4, case

FAMILY = "misc_docs"
"""Name of the file that holds the collected figures."""
_NOVEMBER_2023 = "4.35.0"
"""The newest release when DeepSeek LLM was published; its attention was eager unless another was
asked for.
"""
_SCHEMES = {"bitsandbytes int8": INT8, "bitsandbytes 4-bit": NF4}
_PROMPT_TOKENS, _OLD = 40, "4.33.0"
"""Tokens of OctoCoder's short prompt, and the release of September 2023."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield what ran on transformers' own layers."""
    name = row["model"].get("hf_id")
    if row["task"] != "inference" or name is None:
        message = "an engine of its own"
        raise Untranslatable(message)
    batch, scheme = row["batch"], (row.get("quantization") or {}).get("scheme")
    if name.startswith("deepseek"):
        workload = {
            "prompt_tokens": batch["seq_len"],
            "engine_version": _NOVEMBER_2023,
            "attention": "eager",
        }
    elif batch["prompt"] == "short prompt":
        workload = {
            "prompt_tokens": _PROMPT_TOKENS,
            "output_tokens": batch["new_tokens"],
            "engine_version": _OLD,
        }
    else:
        message = "a prompt of unknown length"
        raise Untranslatable(message)
    shared = {"num_sequences": batch["micro_batch"], "weight_dtype": "bf16"}
    yield case(row, name, shared | workload, _SCHEMES[scheme] if scheme else None)

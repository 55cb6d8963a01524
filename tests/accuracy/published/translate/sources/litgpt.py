"""LitGPT's inference figures: a short prompt and 50 new tokens, the cache made for as many."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import NF4, NF4_DOUBLE, case

_SCHEMES = {"bitsandbytes nf4": NF4, "bitsandbytes nf4-dq": NF4_DOUBLE}
_PROMPT_TOKENS, _NEW_TOKENS = 9, 50
""""What food do llamas eat?", the default prompt, and the default number of new tokens."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a generation; its training runs have a loop and layers of their own."""
    if row["task"] != "inference":
        message = "training by LitGPT's own layers"
        raise Untranslatable(message)
    scheme = (row.get("quantization") or {}).get("scheme")
    workload = {
        "num_sequences": 1,
        "prompt_tokens": _PROMPT_TOKENS,
        "output_tokens": _NEW_TOKENS,
        "cache": "static",
        "client": "loop",
        "weight_dtype": "bf16",
    }
    yield case(row, row["model"]["hf_id"], workload, _SCHEMES[scheme] if scheme else None)

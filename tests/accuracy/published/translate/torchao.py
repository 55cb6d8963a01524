"""torchao's generation logs with unquantised weights: a short prompt, 200 new tokens, a static cache, reserved bytes."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import case

_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16"}
_PROMPT_TOKENS, _NEW_TOKENS = 6, 200
""""Hello, my name is", the script's default prompt."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a generation; torchao's own number formats have no words."""
    if row["task"] != "inference":
        message = "training by torchtitan or torchtune"
        raise Untranslatable(message)
    if row.get("quantization"):
        message = "a number format of torchao"
        raise Untranslatable(message)
    batch, dtype = row["batch"], _FORMATS[row["precision"]["compute"]]
    workload = {
        "num_sequences": 1,
        "prompt_tokens": batch.get("prompt_tokens") or _PROMPT_TOKENS,
        "output_tokens": batch.get("new_tokens") or _NEW_TOKENS,
        "cache": "static",
        "weight_dtype": dtype,
    }
    yield case(row, row["model"]["hf_id"], workload)

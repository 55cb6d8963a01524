"""torchao's generation logs with unquantised weights: a short prompt, 200 new tokens, a static
cache, reserved bytes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._generating import case
from tests.accuracy.published.translate._torchtitan import titan_rows

_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32", "bf16": "bf16"}
_PROMPT_TOKENS, _NEW_TOKENS = 6, 200
""""Hello, my name is", the script's default prompt."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a generation, or a step of torchtitan; torchao's own number formats have no words."""
    if row["task"] != "inference":
        yield from _training(row)
        return
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


_STATES = {
    "torchtitan 0.0.2": "2025-03",
    "torchtitan 2c8b594": "2025-08-11",
    "torchtitan 6fc499f": "2025-08-15",
    "torchtitan PR 778": "2025-01",
}
"""When the code that a table ran was of its state: those of its nightly builds of torch (2.7.0a0,
2.9.0.dev20250811 and on).
"""


def _training(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a pre-training step of torchtitan; of the others the lengths of samples or the
    recomputation are not stated.
    """
    if row["software"]["framework"] not in _STATES:
        message = "training whose sequence lengths or recomputation are not stated"
        raise Untranslatable(message)
    yield from titan_rows(row, dated=_STATES[row["software"]["framework"]], sequence_length=None)

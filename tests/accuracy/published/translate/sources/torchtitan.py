"""torchtitan's own benchmark pages: Llama 3 and 3.1 8B on FSDP2, reserved memory."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate._torchtitan import titan_rows

_PAGES = {
    "benchmarks/llama3_h100_202412_torchtitan.md": "2024-12-26",
    "benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md": "2025-06",
    "docs/performance.md": "2024-07",
}
"""When the code that a page ran was of its state."""
_SAME_SHAPE = {"meta-llama/Meta-Llama-3.1-8B": "meta-llama/Meta-Llama-3-8B"}
_CONFIG_LENGTH = 8192
"""``llama3_8b.toml``, which the pages run; its option for what is recomputed is ``op``."""


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the step of a row; other pages name neither the state of the code nor what is
    recomputed.
    """
    path = row["source"]["path"]
    if path not in _PAGES:
        message = "neither the state of the code nor what is recomputed is stated"
        raise Untranslatable(message)
    shape = row["model"] | {"hf_id": _SAME_SHAPE.get(row["model"]["hf_id"], row["model"]["hf_id"])}
    row = {**row, "checkpointing": row["checkpointing"] or "selective op", "model": shape}
    yield from titan_rows(row, dated=_PAGES[path], sequence_length=_CONFIG_LENGTH)

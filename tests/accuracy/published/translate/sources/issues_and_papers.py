"""vLLM logs quoted in issues: a long prompt profiled whole, on a small GPU."""

from collections.abc import Iterator, Mapping
from typing import Any

from tests.accuracy.published.rows import Untranslatable
from tests.accuracy.published.translate.sources.serving_logs import translate as translate_log

_SERVED = frozenset({"vLLM"})


def translate(row: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the servers; operators and training steps of papers have other words."""
    if row["software"].get("framework") not in _SERVED or row["score_class"] != "memory":
        message = "a single operator, or a training step that states too little"
        raise Untranslatable(message)
    yield from translate_log(row)

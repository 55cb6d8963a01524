"""A question as query parameters, for the one resource that is asked by ``GET``."""

import json
from collections.abc import Iterator, Mapping
from typing import Any


def flat(words: Mapping[str, Any]) -> dict[str, str]:
    """Return a question as query parameters: the members of a section by their own names, an adapter's with its section."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in _flat(words)}


def _flat(words: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in words.items():
        if name == "lora":
            yield from ((f"lora_{inner}", part) for inner, part in value.items())
        elif isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield name, value

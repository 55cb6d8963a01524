"""Fields of a question by their dotted paths."""

from typing import Any


def place_field(document: dict[str, Any], field: str, value: object) -> None:
    """Set a field such as ``workload.micro_batch_size``, unless its section is no object."""
    *path, last = field.split(".")
    for name in path:
        inner = document.setdefault(name, {})
        if not isinstance(inner, dict):
            return
        document = inner
    document[last] = value

"""Answers from a server, which knows the models that were stored there and what was measured."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from service.cli.http import Document, ask, connect, path_of, read


def fit(document: Document, server: str) -> Document:
    """Return the server's answer to a fit question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("fit"), body=document).json()
    return answer


def how_many(document: Document, server: str) -> Document:
    """Return the server's answer to a how-many question, asked by query parameters."""
    with connect(server) as client:
        return read(client, path_of("how-many"), **query_of(document))


def plan(document: Document, server: str) -> Document:
    """Return the server's answer to a plans question."""
    with connect(server) as client:
        answer: Document = ask(client, "POST", path_of("plans"), body=document).json()
    return answer


def query_of(document: Mapping[str, Any]) -> dict[str, str]:
    """Return a how-many request as query parameters: flat, an adapter's words with their section."""
    return {name: value if isinstance(value, str) else json.dumps(value) for name, value in _flat(document)}


def _flat(document: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    for name, value in document.items():
        if name == "lora":
            yield from ((f"lora_{inner}", part) for inner, part in value.items())
        elif isinstance(value, Mapping):
            yield from _flat(value)
        else:
            yield name, value

"""Lists that need no server: what this installation knows by itself.

A server that is named is asked in its place.
"""

import argparse
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import Any

from msgspec import to_builtins

from service.cli.answer_source import Source, get_source

Document = dict[str, Any]


def list_documents(
    options: argparse.Namespace, path: str, list_own: Callable[[], Iterable[object]]
) -> list[Document]:
    """Return the items of a list.

    They are a server's where one is named, else this installation's.
    """
    source = get_source(options)
    return (
        [to_builtins(item) for item in list_own()]
        if source.url is None
        else _read_server(source, path)
    )


def _read_server(source: Source, path: str) -> list[Document]:
    # A list of one's own has no use for an HTTP client.
    http = import_module("service.cli.http")
    with http.connect(source.url) as client:
        items: list[Document] = http.read_all(client, http.build_path(path))
    return items

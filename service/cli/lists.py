"""Lists that need no server: what this installation knows by itself.

A server that is named is asked in its place.
"""

import argparse
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any

from msgspec import to_builtins

from service.base.errors import InvalidRequestError
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


def select_named(items: list[Document], name: str | None, *, noun: str) -> list[Document]:
    """Return the items with this name, alias or family.

    Raises InvalidRequestError for a name that none has, with the nearest.
    """
    if name is None:
        return items
    selected = [item for item in items if _fold(name) in _list_names(item)]
    if not selected:
        known = {folded: item["name"] for item in items for folded in _list_names(item)}
        near = dict.fromkeys(known[one] for one in get_close_matches(_fold(name), known, n=3))
        hint = f" Did you mean {' or '.join(near)}?" if near else ""
        raise InvalidRequestError(f"there is no {noun} {name!r}.{hint}")
    exact = [item for item in selected if _fold(item["name"]) == _fold(name)]
    return exact or selected


def _list_names(item: Document) -> set[str]:
    aliases = item.get("aliases", ())
    listed = [one for group in aliases.values() for one in group] if aliases else []
    return {_fold(one) for one in (item["name"], item.get("family", ""), *listed) if one}


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-").replace(" ", "-")


def _read_server(source: Source, path: str) -> list[Document]:
    # A list of one's own has no use for an HTTP client.
    from service.cli.http import build_path, connect, read_all  # noqa: PLC0415

    with connect(source.url) as client:
        return read_all(client, build_path(path))

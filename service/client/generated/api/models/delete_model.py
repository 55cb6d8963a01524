"""Remove a stored model with all its revisions."""

from typing import Any
from urllib.parse import quote

import httpx

from ...types import Call


def call(
    name: str,
    *,
    if_match: str,
) -> Call[None]:
    """Remove a stored model with all its revisions."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    return Call(
        method="DELETE",
        path="/v1/models/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> None:
    return None

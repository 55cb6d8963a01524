"""Release a reservation: its GPUs are free at once."""

from typing import Any
from urllib.parse import quote

import httpx

from ...types import Call


def call(
    name: str,
    id: str,
    *,
    if_match: str,
) -> Call[None]:
    """Release a reservation: its GPUs are free at once."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    return Call(
        method="DELETE",
        path="/v1/clusters/{name}/reservations/{id}".format(
            name=quote(str(name), safe=""),
            id=quote(str(id), safe=""),
        ),
        params={},
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> None:
    return None

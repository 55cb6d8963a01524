"""Remove a stored cluster; one with reservations only where the request ends them."""

from typing import Any
from urllib.parse import quote

import httpx

from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    end_reservations: bool | Unset = UNSET,
    if_match: str,
) -> Call[None]:
    """Remove a stored cluster; one with reservations only where the request ends them."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    params: dict[str, Any] = {}

    params["end_reservations"] = end_reservations

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="DELETE",
        path="/v1/clusters/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params=params,
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> None:
    return None

"""List the reservations that live, newest first."""

from typing import Any
from urllib.parse import quote

import httpx

from ...models.reservation_page import ReservationPage
from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[ReservationPage]:
    """List the reservations that live, newest first."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/clusters/{name}/reservations".format(
            name=quote(str(name), safe=""),
        ),
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ReservationPage:
    if response.status_code == 200:
        response_200 = ReservationPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

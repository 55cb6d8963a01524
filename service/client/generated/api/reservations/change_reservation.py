"""Give a reservation another end, or the job that it is for."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.reservation_answer import ReservationAnswer
from ...models.reservation_change_request import ReservationChangeRequest
from ...types import Call


def call(
    name: str,
    id: str,
    *,
    body: ReservationChangeRequest | Mapping[str, Any],
    if_match: str,
) -> Call[ReservationAnswer]:
    """Give a reservation another end, or the job that it is for."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="PATCH",
        path="/v1/clusters/{name}/reservations/{id}".format(
            name=quote(str(name), safe=""),
            id=quote(str(id), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ReservationAnswer:
    if response.status_code == 200:
        response_200 = ReservationAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

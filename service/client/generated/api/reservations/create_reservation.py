"""Reserve GPUs of a cluster for a time, all of them or none."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.reservation_answer import ReservationAnswer
from ...models.reservation_request import ReservationRequest
from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    body: ReservationRequest | Mapping[str, Any],
    idempotency_key: str | Unset = UNSET,
) -> Call[ReservationAnswer]:
    """Reserve GPUs of a cluster for a time, all of them or none."""
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/clusters/{name}/reservations".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ReservationAnswer:
    if response.status_code == 201:
        response_201 = ReservationAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

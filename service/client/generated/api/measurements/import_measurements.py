"""Store what was measured without a probe."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.import_answer import ImportAnswer
from ...models.import_request import ImportRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: ImportRequest | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[ImportAnswer]:
    """Store what was measured without a probe."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/measurements/import",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ImportAnswer:
    if response.status_code == 200:
        response_200 = ImportAnswer.from_dict(response.json())

        return response_200

    if response.status_code == 201:
        response_201 = ImportAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

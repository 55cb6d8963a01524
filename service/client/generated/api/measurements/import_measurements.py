"""Store what was measured without a probe."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.import_answer import ImportAnswer
from ...models.import_request import ImportRequest
from ...types import Call


def call(
    *,
    body: ImportRequest | Mapping[str, Any],
) -> Call[ImportAnswer]:
    """Store what was measured without a probe."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/measurements/import",
        params={},
        headers={},
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

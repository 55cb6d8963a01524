"""Answer up to 10,000 fit questions in one call, in order."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.batch_answer import BatchAnswer
from ...models.batch_request import BatchRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: BatchRequest | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[BatchAnswer]:
    """Answer up to 10,000 fit questions in one call, in order."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/fit/batch",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> BatchAnswer:
    if response.status_code == 200:
        response_200 = BatchAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

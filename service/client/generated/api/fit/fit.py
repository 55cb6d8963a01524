"""Say whether a workload fits on a GPU in a layout, and why."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.fit_answer import FitAnswer
from ...models.fit_request import FitRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: FitRequest | Mapping[str, Any],
    if_none_match: str | Unset = UNSET,
    hub_token: str | Unset = UNSET,
) -> Call[FitAnswer]:
    """Say whether a workload fits on a GPU in a layout, and why."""
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/fit",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> FitAnswer:
    if response.status_code == 200:
        response_200 = FitAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

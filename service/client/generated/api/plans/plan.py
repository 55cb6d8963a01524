"""Say how many GPUs of which kind, in which layout."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.plan_answer import PlanAnswer
from ...models.plan_request import PlanRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: PlanRequest | Mapping[str, Any],
    if_none_match: str | Unset = UNSET,
    hub_token: str | Unset = UNSET,
) -> Call[PlanAnswer]:
    """Say how many GPUs of which kind, in which layout."""
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/plans",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> PlanAnswer:
    if response.status_code == 200:
        response_200 = PlanAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Say why a run failed for memory, and what would have fitted."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.explain_answer import ExplainAnswer
from ...models.explain_request import ExplainRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: ExplainRequest | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[ExplainAnswer]:
    """Say why a run failed for memory, and what would have fitted."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/explain",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ExplainAnswer:
    if response.status_code == 200:
        response_200 = ExplainAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

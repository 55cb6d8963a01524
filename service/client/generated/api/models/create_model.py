"""Store a model."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.model_answer import ModelAnswer
from ...models.model_create import ModelCreate
from ...types import UNSET, Call, Unset


def call(
    *,
    body: ModelCreate | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[ModelAnswer]:
    """Store a model."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/models",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ModelAnswer:
    if response.status_code == 201:
        response_201 = ModelAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

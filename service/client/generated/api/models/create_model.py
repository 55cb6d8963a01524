"""Store a model."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.model_answer import ModelAnswer
from ...models.model_create import ModelCreate
from ...types import Call


def call(
    *,
    body: ModelCreate | Mapping[str, Any],
) -> Call[ModelAnswer]:
    """Store a model."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/models",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ModelAnswer:
    if response.status_code == 201:
        response_201 = ModelAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

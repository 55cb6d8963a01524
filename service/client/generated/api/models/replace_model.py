"""Store a new revision of a model."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.model_answer import ModelAnswer
from ...models.model_replace import ModelReplace
from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    body: ModelReplace | Mapping[str, Any],
    if_match: str,
    hub_token: str | Unset = UNSET,
) -> Call[ModelAnswer]:
    """Store a new revision of a model."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="PUT",
        path="/v1/models/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ModelAnswer:
    if response.status_code == 200:
        response_200 = ModelAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

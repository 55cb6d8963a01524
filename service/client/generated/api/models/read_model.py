"""Show a stored model at its newest or a named revision, or a model of the catalogue by a name that it has."""

from typing import Any
from urllib.parse import quote

import httpx

from ...models.model_answer import ModelAnswer
from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    revision: int | Unset = UNSET,
    if_none_match: str | Unset = UNSET,
) -> Call[ModelAnswer]:
    """Show a stored model at its newest or a named revision, or a model of the catalogue by a name that it has."""
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    params: dict[str, Any] = {}

    params["revision"] = revision

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/models/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params=params,
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ModelAnswer:
    if response.status_code == 200:
        response_200 = ModelAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

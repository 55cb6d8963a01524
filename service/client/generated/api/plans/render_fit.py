"""Render a workload on a GPU in a layout for a scheduler, where it fits."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.render_fit_name import RenderFitName
from ...models.rendering_answer import RenderingAnswer
from ...models.rendering_request import RenderingRequest
from ...types import UNSET, Call, Unset


def call(
    name: RenderFitName,
    *,
    body: RenderingRequest | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[RenderingAnswer]:
    """Render a workload on a GPU in a layout for a scheduler, where it fits."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/formats/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> RenderingAnswer:
    if response.status_code == 200:
        response_200 = RenderingAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Prefer the cheapest nodes that hold a task of Volcano."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.mode import Mode
from ...models.prioritize_answer import PrioritizeAnswer
from ...models.prioritize_request import PrioritizeRequest
from ...types import Call


def call(
    mode: Mode,
    *,
    body: PrioritizeRequest | Mapping[str, Any],
) -> Call[PrioritizeAnswer]:
    """Prefer the cheapest nodes that hold a task of Volcano."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/volcano/{mode}/prioritize".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> PrioritizeAnswer:
    if response.status_code == 200:
        response_200 = PrioritizeAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Make a key, which is shown this once."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.key_request import KeyRequest
from ...models.new_key_answer import NewKeyAnswer
from ...types import Call


def call(
    *,
    body: KeyRequest | Mapping[str, Any],
) -> Call[NewKeyAnswer]:
    """Make a key, which is shown this once."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/keys",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> NewKeyAnswer:
    if response.status_code == 201:
        response_201 = NewKeyAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

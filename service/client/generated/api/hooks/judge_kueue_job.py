"""Judge a job that Kueue holds: let it pass, refuse or change it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.kueue_answer import KueueAnswer
from ...models.kueue_request import KueueRequest
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    *,
    body: KueueRequest | Mapping[str, Any],
) -> Call[KueueAnswer]:
    """Judge a job that Kueue holds: let it pass, refuse or change it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/kueue/{mode}".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> KueueAnswer:
    if response.status_code == 200:
        response_200 = KueueAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

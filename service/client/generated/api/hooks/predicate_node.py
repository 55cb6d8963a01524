"""Say whether a task of Volcano may run on a node."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.mode import Mode
from ...models.predicate_answer import PredicateAnswer
from ...models.predicate_request import PredicateRequest
from ...types import Call


def call(
    mode: Mode,
    *,
    body: PredicateRequest | Mapping[str, Any],
) -> Call[PredicateAnswer]:
    """Say whether a task of Volcano may run on a node."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/volcano/{mode}/predicate".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> PredicateAnswer:
    if response.status_code == 200:
        response_200 = PredicateAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

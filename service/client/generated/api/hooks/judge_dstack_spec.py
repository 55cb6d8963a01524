"""Judge a run of dstack: let it pass, refuse or change it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.dstack_answer import DstackAnswer
from ...models.dstack_policy import DstackPolicy
from ...models.dstack_request import DstackRequest
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    policy: DstackPolicy,
    *,
    body: DstackRequest | Mapping[str, Any],
) -> Call[DstackAnswer]:
    """Judge a run of dstack: let it pass, refuse or change it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/dstack/{mode}/apply_policies/{policy}".format(
            mode=quote(str(mode), safe=""),
            policy=quote(str(policy), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> DstackAnswer:
    if response.status_code == 200:
        response_200 = DstackAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

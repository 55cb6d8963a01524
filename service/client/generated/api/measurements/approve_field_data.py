"""Let measurements that were handed in teach."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.field_data_answer import FieldDataAnswer
from ...models.field_data_decision import FieldDataDecision
from ...types import Call


def call(
    *,
    body: FieldDataDecision | Mapping[str, Any],
) -> Call[FieldDataAnswer]:
    """Let measurements that were handed in teach."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/field-data/approve",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> FieldDataAnswer:
    if response.status_code == 200:
        response_200 = FieldDataAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Store a question, and return the digest by which a job carries it."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.fit_request import FitRequest
from ...models.hook_question_answer import HookQuestionAnswer
from ...types import Call


def call(
    *,
    body: FitRequest | Mapping[str, Any],
) -> Call[HookQuestionAnswer]:
    """Store a question, and return the digest by which a job carries it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/questions",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> HookQuestionAnswer:
    if response.status_code == 200:
        response_200 = HookQuestionAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

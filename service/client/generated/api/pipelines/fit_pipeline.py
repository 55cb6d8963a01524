"""Say whether a call of a pipeline fits on a GPU, and why."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.fit_answer import FitAnswer
from ...models.pipeline_fit_request import PipelineFitRequest
from ...types import Call


def call(
    *,
    body: PipelineFitRequest | Mapping[str, Any],
) -> Call[FitAnswer]:
    """Say whether a call of a pipeline fits on a GPU, and why."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/pipelines/fit",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> FitAnswer:
    if response.status_code == 200:
        response_200 = FitAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

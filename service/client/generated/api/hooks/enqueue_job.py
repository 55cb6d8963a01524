"""Say whether a job of Volcano may be queued."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.job_enqueueable_answer import JobEnqueueableAnswer
from ...models.job_enqueueable_request import JobEnqueueableRequest
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    *,
    body: JobEnqueueableRequest | Mapping[str, Any],
) -> Call[JobEnqueueableAnswer]:
    """Say whether a job of Volcano may be queued."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/volcano/{mode}/jobEnqueueable".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> JobEnqueueableAnswer:
    if response.status_code == 200:
        response_200 = JobEnqueueableAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

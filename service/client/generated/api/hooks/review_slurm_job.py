"""Review a job of Slurm's, and warn where it does not fit."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.slurm_answer import SlurmAnswer
from ...models.slurm_submission import SlurmSubmission
from ...types import Call


def call(
    *,
    body: SlurmSubmission | Mapping[str, Any],
) -> Call[SlurmAnswer]:
    """Review a job of Slurm's, and warn where it does not fit."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/slurm",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> SlurmAnswer:
    if response.status_code == 200:
        response_200 = SlurmAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

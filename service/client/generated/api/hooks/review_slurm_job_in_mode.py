"""Review a job of Slurm's: warn, refuse or change it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.mode import Mode
from ...models.slurm_answer import SlurmAnswer
from ...models.slurm_submission import SlurmSubmission
from ...types import Call


def call(
    mode: Mode,
    *,
    body: SlurmSubmission | Mapping[str, Any],
) -> Call[SlurmAnswer]:
    """Review a job of Slurm's: warn, refuse or change it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/slurm/{mode}".format(
            mode=quote(str(mode), safe=""),
        ),
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

"""List the workers of the last day, the most recently started first."""

from typing import Any

import httpx

from ...models.worker_page import WorkerPage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[WorkerPage]:
    """List the workers of the last day, the most recently started first."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/workers",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> WorkerPage:
    if response.status_code == 200:
        response_200 = WorkerPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

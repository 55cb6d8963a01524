"""List the changes that were asked for, newest first: by whom, and how they were answered."""

from typing import Any

import httpx

from ...models.change_page import ChangePage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[ChangePage]:
    """List the changes that were asked for, newest first: by whom, and how they were answered."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/audit",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ChangePage:
    if response.status_code == 200:
        response_200 = ChangePage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""List the formats of schedulers that a job is rendered in, and what each carries."""

from typing import Any

import httpx

from ...models.format_page import FormatPage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[FormatPage]:
    """List the formats of schedulers that a job is rendered in, and what each carries."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/formats",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> FormatPage:
    if response.status_code == 200:
        response_200 = FormatPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

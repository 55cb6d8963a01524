"""List what was read while the probe ran, oldest first."""

from typing import Any
from urllib.parse import quote

import httpx

from ...models.sample_page import SamplePage
from ...types import UNSET, Call, Unset


def call(
    id: str,
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[SamplePage]:
    """List what was read while the probe ran, oldest first."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/measurements/{id}/samples".format(
            id=quote(str(id), safe=""),
        ),
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> SamplePage:
    if response.status_code == 200:
        response_200 = SamplePage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

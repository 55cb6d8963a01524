"""List the GPUs that questions may name, with the source of every figure."""

from typing import Any

import httpx

from ...models.gpu_page import GpuPage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[GpuPage]:
    """List the GPUs that questions may name, with the source of every figure."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/gpus",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> GpuPage:
    if response.status_code == 200:
        response_200 = GpuPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""List the stored clusters, newest first."""

from typing import Any

import httpx

from ...models.cluster_page import ClusterPage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    nodes: bool | Unset = UNSET,
) -> Call[ClusterPage]:
    """List the stored clusters, newest first."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params["nodes"] = nodes

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/clusters",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ClusterPage:
    if response.status_code == 200:
        response_200 = ClusterPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

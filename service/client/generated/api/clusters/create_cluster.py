"""Store a cluster."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.cluster_answer import ClusterAnswer
from ...models.cluster_create import ClusterCreate
from ...types import Call


def call(
    *,
    body: ClusterCreate | Mapping[str, Any],
) -> Call[ClusterAnswer]:
    """Store a cluster."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/clusters",
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ClusterAnswer:
    if response.status_code == 201:
        response_201 = ClusterAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

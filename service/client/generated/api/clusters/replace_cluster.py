"""Replace a stored cluster."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.cluster_answer import ClusterAnswer
from ...models.cluster_replace import ClusterReplace
from ...types import Call


def call(
    name: str,
    *,
    body: ClusterReplace | Mapping[str, Any],
    if_match: str,
) -> Call[ClusterAnswer]:
    """Replace a stored cluster."""
    headers: dict[str, Any] = {}
    headers["If-Match"] = if_match

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="PUT",
        path="/v1/clusters/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ClusterAnswer:
    if response.status_code == 200:
        response_200 = ClusterAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

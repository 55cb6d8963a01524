"""Bring a cluster up to date with what another tool lists."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.cluster_import_answer import ClusterImportAnswer
from ...models.cluster_import_request import ClusterImportRequest
from ...types import UNSET, Call, Unset


def call(
    name: str,
    *,
    body: ClusterImportRequest | Mapping[str, Any],
    if_match: str | Unset = UNSET,
) -> Call[ClusterImportAnswer]:
    """Bring a cluster up to date with what another tool lists."""
    headers: dict[str, Any] = {}
    if not isinstance(if_match, Unset):
        headers["If-Match"] = if_match

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/clusters/{name}/import".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ClusterImportAnswer:
    if response.status_code == 200:
        response_200 = ClusterImportAnswer.from_dict(response.json())

        return response_200

    if response.status_code == 201:
        response_201 = ClusterImportAnswer.from_dict(response.json())

        return response_201

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

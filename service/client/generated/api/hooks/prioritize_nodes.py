"""Prefer the cheapest nodes of kube-scheduler that hold a pod."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.extender_args import ExtenderArgs
from ...models.host_priority import HostPriority
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    *,
    body: ExtenderArgs | Mapping[str, Any],
) -> Call[list[HostPriority]]:
    """Prefer the cheapest nodes of kube-scheduler that hold a pod."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/kube-scheduler/{mode}/prioritize".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> list[HostPriority]:
    if response.status_code == 200:
        response_200 = []
        _response_200 = response.json()
        for response_200_item_data in _response_200:
            response_200_item = HostPriority.from_dict(response_200_item_data)

            response_200.append(response_200_item)

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Leave out the nodes of kube-scheduler whose GPUs cannot hold a pod."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.extender_args import ExtenderArgs
from ...models.extender_filter_result import ExtenderFilterResult
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    *,
    body: ExtenderArgs | Mapping[str, Any],
) -> Call[ExtenderFilterResult]:
    """Leave out the nodes of kube-scheduler whose GPUs cannot hold a pod."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/kube-scheduler/{mode}/filter".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> ExtenderFilterResult:
    if response.status_code == 200:
        response_200 = ExtenderFilterResult.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

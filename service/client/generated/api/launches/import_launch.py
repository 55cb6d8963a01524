"""Read a launch file, a command or a script's arguments as a question."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.launch_import_answer import LaunchImportAnswer
from ...models.launch_import_request import LaunchImportRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: LaunchImportRequest | Mapping[str, Any],
    hub_token: str | Unset = UNSET,
) -> Call[LaunchImportAnswer]:
    """Read a launch file, a command or a script's arguments as a question."""
    headers: dict[str, Any] = {}
    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/launches/import",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> LaunchImportAnswer:
    if response.status_code == 200:
        response_200 = LaunchImportAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

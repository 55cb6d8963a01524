"""Judge a task of SkyPilot: let it pass, refuse or change it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.mode import Mode
from ...models.sky_pilot_answer import SkyPilotAnswer
from ...models.sky_pilot_request import SkyPilotRequest
from ...types import Call


def call(
    mode: Mode,
    *,
    body: SkyPilotRequest | Mapping[str, Any],
) -> Call[SkyPilotAnswer]:
    """Judge a task of SkyPilot: let it pass, refuse or change it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/skypilot/{mode}".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> SkyPilotAnswer:
    if response.status_code == 200:
        response_200 = SkyPilotAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

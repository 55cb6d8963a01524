"""Ask for a probe."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.dry_run_answer import DryRunAnswer
from ...models.measurement_answer import MeasurementAnswer
from ...models.measurement_request import MeasurementRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: MeasurementRequest | Mapping[str, Any],
    idempotency_key: str | Unset = UNSET,
    hub_token: str | Unset = UNSET,
) -> Call[DryRunAnswer | MeasurementAnswer]:
    """Ask for a probe."""
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/measurements",
        params={},
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> DryRunAnswer | MeasurementAnswer:
    if response.status_code == 200:
        response_200 = DryRunAnswer.from_dict(response.json())

        return response_200

    if response.status_code == 202:
        response_202 = MeasurementAnswer.from_dict(response.json())

        return response_202

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Say how far answers were from what was measured here, before and after calibration."""

import datetime
from typing import Any

import httpx

from ...models.accuracy_answer import AccuracyAnswer
from ...models.probe_device import ProbeDevice
from ...models.read_accuracy_quantity import ReadAccuracyQuantity
from ...types import UNSET, Call, Unset


def call(
    *,
    family: str | Unset = UNSET,
    gpu: str | Unset = UNSET,
    device: ProbeDevice | Unset = UNSET,
    quantity: ReadAccuracyQuantity | Unset = UNSET,
    since: datetime.datetime | Unset = UNSET,
) -> Call[AccuracyAnswer]:
    """Say how far answers were from what was measured here, before and after calibration."""

    params: dict[str, Any] = {}

    params["family"] = family

    params["gpu"] = gpu

    json_device: str | Unset = UNSET
    if not isinstance(device, Unset):
        json_device = device

    params["device"] = json_device

    json_quantity: str | Unset = UNSET
    if not isinstance(quantity, Unset):
        json_quantity = quantity

    params["quantity"] = json_quantity

    json_since: str | Unset = UNSET
    if not isinstance(since, Unset):
        json_since = since.isoformat()
    params["since"] = json_since

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/accuracy",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> AccuracyAnswer:
    if response.status_code == 200:
        response_200 = AccuracyAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

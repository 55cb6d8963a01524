"""List what was learnt from measurements, newest first; the newest of a key holds."""

from typing import Any

import httpx

from ...models.calibration_page import CalibrationPage
from ...types import UNSET, Call, Unset


def call(
    *,
    key: str | Unset = UNSET,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[CalibrationPage]:
    """List what was learnt from measurements, newest first; the newest of a key holds."""

    params: dict[str, Any] = {}

    params["key"] = key

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/calibrations",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> CalibrationPage:
    if response.status_code == 200:
        response_200 = CalibrationPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

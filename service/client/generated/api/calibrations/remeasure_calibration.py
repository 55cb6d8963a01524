"""Ask again for every size that a calibration rests on."""

from typing import Any
from urllib.parse import quote

import httpx

from ...models.remeasure_answer import RemeasureAnswer
from ...types import UNSET, Call, Unset


def call(
    id: str,
    *,
    idempotency_key: str | Unset = UNSET,
) -> Call[RemeasureAnswer]:
    """Ask again for every size that a calibration rests on."""
    headers: dict[str, Any] = {}
    if not isinstance(idempotency_key, Unset):
        headers["Idempotency-Key"] = idempotency_key

    return Call(
        method="POST",
        path="/v1/calibrations/{id}/remeasure".format(
            id=quote(str(id), safe=""),
        ),
        params={},
        headers=headers,
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> RemeasureAnswer:
    if response.status_code == 202:
        response_202 = RemeasureAnswer.from_dict(response.json())

        return response_202

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

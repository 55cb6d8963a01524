"""Cancel a measurement: a queued one at once, a running one within six seconds, whatever its probe is stuck in."""

from urllib.parse import quote

import httpx

from ...models.measurement_answer import MeasurementAnswer
from ...types import Call


def call(
    id: str,
) -> Call[MeasurementAnswer]:
    """Cancel a measurement: a queued one at once, a running one within six seconds, whatever its probe is stuck in."""

    return Call(
        method="DELETE",
        path="/v1/measurements/{id}".format(
            id=quote(str(id), safe=""),
        ),
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> MeasurementAnswer:
    if response.status_code == 200:
        response_200 = MeasurementAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

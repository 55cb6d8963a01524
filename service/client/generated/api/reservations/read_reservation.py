"""Show a reservation that lives."""

from urllib.parse import quote

import httpx

from ...models.reservation_answer import ReservationAnswer
from ...types import Call


def call(
    name: str,
    id: str,
) -> Call[ReservationAnswer]:
    """Show a reservation that lives."""

    return Call(
        method="GET",
        path="/v1/clusters/{name}/reservations/{id}".format(
            name=quote(str(name), safe=""),
            id=quote(str(id), safe=""),
        ),
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ReservationAnswer:
    if response.status_code == 200:
        response_200 = ReservationAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Say that the process answers."""

import httpx

from ...models.health_answer import HealthAnswer
from ...types import Call


def call() -> Call[HealthAnswer]:
    """Say that the process answers."""

    return Call(
        method="GET",
        path="/healthz",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> HealthAnswer:
    if response.status_code == 200:
        response_200 = HealthAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

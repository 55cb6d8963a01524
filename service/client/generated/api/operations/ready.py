"""Say whether everything that this process needs is there."""

import httpx

from ...models.ready_answer import ReadyAnswer
from ...types import Call


def call() -> Call[ReadyAnswer]:
    """Say whether everything that this process needs is there."""

    return Call(
        method="GET",
        path="/readyz",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ReadyAnswer:
    if response.status_code == 200:
        response_200 = ReadyAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

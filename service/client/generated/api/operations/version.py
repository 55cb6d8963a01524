"""Say what runs here."""

import httpx

from ...models.version_answer import VersionAnswer
from ...types import Call


def call() -> Call[VersionAnswer]:
    """Say what runs here."""

    return Call(
        method="GET",
        path="/version",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> VersionAnswer:
    if response.status_code == 200:
        response_200 = VersionAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""Revoke a key: within a minute nobody is let in with it, at once by the process that is asked."""

from urllib.parse import quote

import httpx

from ...models.key_answer import KeyAnswer
from ...types import Call


def call(
    id: str,
) -> Call[KeyAnswer]:
    """Revoke a key: within a minute nobody is let in with it, at once by the process that is asked."""

    return Call(
        method="DELETE",
        path="/v1/keys/{id}".format(
            id=quote(str(id), safe=""),
        ),
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> KeyAnswer:
    if response.status_code == 200:
        response_200 = KeyAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

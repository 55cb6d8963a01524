"""List who handed in measurements, and how many of them teach."""

import httpx

from ...models.source_list import SourceList
from ...types import Call


def call() -> Call[SourceList]:
    """List who handed in measurements, and how many of them teach."""

    return Call(
        method="GET",
        path="/v1/field-data",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> SourceList:
    if response.status_code == 200:
        response_200 = SourceList.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

"""List what keys have in common, which answers for those that nobody measured."""

import httpx

from ...models.pool_page import PoolPage
from ...types import Call


def call() -> Call[PoolPage]:
    """List what keys have in common, which answers for those that nobody measured."""

    return Call(
        method="GET",
        path="/v1/calibrations/pools",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> PoolPage:
    if response.status_code == 200:
        response_200 = PoolPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

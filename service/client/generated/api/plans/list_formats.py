"""List the formats of schedulers that a job is rendered in, and what each carries."""

import httpx

from ...models.format_page import FormatPage
from ...types import Call


def call() -> Call[FormatPage]:
    """List the formats of schedulers that a job is rendered in, and what each carries."""

    return Call(
        method="GET",
        path="/v1/formats",
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> FormatPage:
    if response.status_code == 200:
        response_200 = FormatPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

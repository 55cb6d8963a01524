"""Show a stored cluster."""

from urllib.parse import quote

import httpx

from ...models.cluster_answer import ClusterAnswer
from ...types import Call


def call(
    name: str,
) -> Call[ClusterAnswer]:
    """Show a stored cluster."""

    return Call(
        method="GET",
        path="/v1/clusters/{name}".format(
            name=quote(str(name), safe=""),
        ),
        params={},
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ClusterAnswer:
    if response.status_code == 200:
        response_200 = ClusterAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

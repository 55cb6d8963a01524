"""Review an object of Kubernetes: warn, refuse or change it."""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

from ...models.admission_answer import AdmissionAnswer
from ...models.admission_review import AdmissionReview
from ...models.mode import Mode
from ...types import Call


def call(
    mode: Mode,
    *,
    body: AdmissionReview | Mapping[str, Any],
) -> Call[AdmissionAnswer]:
    """Review an object of Kubernetes: warn, refuse or change it."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/kubernetes/{mode}".format(
            mode=quote(str(mode), safe=""),
        ),
        params={},
        headers={},
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> AdmissionAnswer:
    if response.status_code == 200:
        response_200 = AdmissionAnswer.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

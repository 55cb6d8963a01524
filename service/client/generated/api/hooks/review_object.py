"""Review an object of Kubernetes, and warn where it does not fit."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.admission_answer import AdmissionAnswer
from ...models.admission_review import AdmissionReview
from ...types import Call


def call(
    *,
    body: AdmissionReview | Mapping[str, Any],
) -> Call[AdmissionAnswer]:
    """Review an object of Kubernetes, and warn where it does not fit."""

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/hooks/kubernetes",
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

"""List the families of models, and for each what is modelled and what is refused."""

from typing import Any

import httpx

from ...models.model_family_page import ModelFamilyPage
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
) -> Call[ModelFamilyPage]:
    """List the families of models, and for each what is modelled and what is refused."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/families",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> ModelFamilyPage:
    if response.status_code == 200:
        response_200 = ModelFamilyPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

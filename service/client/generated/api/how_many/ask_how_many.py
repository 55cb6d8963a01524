"""Say how many GPUs a workload needs, asked by a body."""

from collections.abc import Mapping
from typing import Any

import httpx

from ...models.ask_how_many_as import AskHowManyAs
from ...models.family_answer import FamilyAnswer
from ...models.how_many_answer import HowManyAnswer
from ...models.how_many_request import HowManyRequest
from ...types import UNSET, Call, Unset


def call(
    *,
    body: HowManyRequest | Mapping[str, Any],
    as_: AskHowManyAs | Unset = UNSET,
    if_none_match: str | Unset = UNSET,
    hub_token: str | Unset = UNSET,
) -> Call[FamilyAnswer | HowManyAnswer]:
    """Say how many GPUs a workload needs, asked by a body."""
    headers: dict[str, Any] = {}
    if not isinstance(if_none_match, Unset):
        headers["If-None-Match"] = if_none_match

    if not isinstance(hub_token, Unset):
        headers["Hub-Token"] = hub_token

    params: dict[str, Any] = {}

    json_as_: str | Unset = UNSET
    if not isinstance(as_, Unset):
        json_as_ = as_

    params["as"] = json_as_

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    sent = body if isinstance(body, Mapping) else body.to_dict()

    return Call(
        method="POST",
        path="/v1/how-many",
        params=params,
        headers=headers,
        body=sent,
        read=_read,
    )


def _read(response: httpx.Response) -> FamilyAnswer | HowManyAnswer:
    if response.status_code == 200:

        def _parse_response_200(data: object) -> FamilyAnswer | HowManyAnswer:
            try:
                if not isinstance(data, dict):
                    raise TypeError()
                response_200_type_0 = HowManyAnswer.from_dict(data)

                return response_200_type_0
            except (TypeError, ValueError, AttributeError, KeyError):
                pass
            if not isinstance(data, dict):
                raise TypeError()
            response_200_type_1 = FamilyAnswer.from_dict(data)

            return response_200_type_1

        response_200 = _parse_response_200(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

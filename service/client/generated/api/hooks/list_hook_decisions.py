"""List what hooks decided about submitted jobs, newest first."""

import datetime
from typing import Any

import httpx

from ...models.action import Action
from ...models.decision_page import DecisionPage
from ...models.list_hook_decisions_format import ListHookDecisionsFormat
from ...models.list_hook_decisions_verdict import ListHookDecisionsVerdict
from ...types import UNSET, Call, Unset


def call(
    *,
    limit: int | Unset = UNSET,
    cursor: str | Unset = UNSET,
    door: str | Unset = UNSET,
    verdict: ListHookDecisionsVerdict | Unset = UNSET,
    action: Action | Unset = UNSET,
    user: str | Unset = UNSET,
    queue: str | Unset = UNSET,
    question: str | Unset = UNSET,
    format_: ListHookDecisionsFormat | Unset = UNSET,
    created_after: datetime.datetime | Unset = UNSET,
    created_before: datetime.datetime | Unset = UNSET,
) -> Call[DecisionPage]:
    """List what hooks decided about submitted jobs, newest first."""

    params: dict[str, Any] = {}

    params["limit"] = limit

    params["cursor"] = cursor

    params["door"] = door

    json_verdict: str | Unset = UNSET
    if not isinstance(verdict, Unset):
        json_verdict = verdict

    params["verdict"] = json_verdict

    json_action: str | Unset = UNSET
    if not isinstance(action, Unset):
        json_action = action

    params["action"] = json_action

    params["user"] = user

    params["queue"] = queue

    params["question"] = question

    json_format_: str | Unset = UNSET
    if not isinstance(format_, Unset):
        json_format_ = format_

    params["format"] = json_format_

    json_created_after: str | Unset = UNSET
    if not isinstance(created_after, Unset):
        json_created_after = created_after.isoformat()
    params["created_after"] = json_created_after

    json_created_before: str | Unset = UNSET
    if not isinstance(created_before, Unset):
        json_created_before = created_before.isoformat()
    params["created_before"] = json_created_before

    params = {k: v for k, v in params.items() if v is not UNSET and v is not None}

    return Call(
        method="GET",
        path="/v1/hooks/decisions",
        params=params,
        headers={},
        body=None,
        read=_read,
    )


def _read(response: httpx.Response) -> DecisionPage:
    if response.status_code == 200:
        response_200 = DecisionPage.from_dict(response.json())

        return response_200

    message = f"no answer of this request is documented with {response.status_code}"
    raise ValueError(message)

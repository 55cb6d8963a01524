"""/v1/keys: who may ask for what; and /v1/audit: who changed what."""

import re
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from litestar import Request, Router, delete, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import NOBODY, Scope
from service.api.http.auth import principal_in
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import parts_of
from service.api.http.names import LOCATION
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import page_request
from service.api.http.responses import json_answer
from service.base.errors import NotFoundError
from service.contract.schemas.fields import PageQuery, optional
from service.contract.schemas.keys import ChangeAnswer, ChangePage, KeyAnswer, KeyId, KeyPage, KeyRequest, NewKeyAnswer
from service.contract.to_answer.timestamps import timestamp, timestamp_or_none
from service.usecases.access import keys
from service.usecases.access.keys import NewKey, StoredAuditEvent, StoredKey

TAG = "keys"
EXAMPLE = {"name": "slurm-scheduler", "scopes": ["plan"], "expires_in_s": 7_776_000, "rate": "600/minute"}
_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
AnyRequest = Request[Any, Any, Any]


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createKey",
        tag=TAG,
        summary="Make a key, which is shown this once.",
        description="What is kept is its SHA-256: whoever loses a key makes another one and revokes this.",
        body=KeyRequest,
        example=EXAMPLE,
        scope=Scope.ADMIN,
        is_change=True,
        replies={201: Reply(description="The key.", bodies=(NewKeyAnswer,), headers={"Location": LOCATION})},
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Make a key."""
    asked = read_body(request.scope, body, KeyRequest)
    parts, seconds = parts_of(request), optional(asked.expires_in_s)
    maker = principal_in(request.scope)
    wanted = NewKey(
        name=asked.name,
        scopes=frozenset(asked.scopes),
        created_by=NOBODY if maker is None else maker.name,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        rate=optional(asked.rate),
        quota=optional(asked.quota),
    )
    stored, text = keys.create(parts.sessions, wanted)
    parts.refresh_keys()
    answer = NewKeyAnswer(key=text, **members_of(stored))
    headers = {"location": f"/v1/keys/{stored.id}", "cache-control": "no-store"}
    return json_answer(answer, status=201, headers=headers)


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listKeys",
        tag=TAG,
        summary="List the keys, newest first, those that are over among them.",
        query=PageQuery,
        scope=Scope.ADMIN,
        replies={200: Reply(description="One page.", bodies=(KeyPage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_all(request: AnyRequest) -> ASGIApp:
    """List the keys."""
    query = read_query(request.scope, PageQuery)
    page = keys.list_page(parts_of(request).sessions, page_request(query.limit, query.cursor))
    return json_answer(KeyPage(items=[KeyAnswer(**members_of(item)) for item in page.items], next_cursor=page.next_cursor))


@delete(
    "/{id:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="revokeKey",
        tag=TAG,
        summary="Revoke a key: within a minute nobody is let in with it, at once by the process that is asked.",
        path={"id": KeyId},
        scope=Scope.ADMIN,
        is_change=True,
        replies={200: Reply(description="The key as it ended.", bodies=(KeyAnswer,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def revoke(request: AnyRequest) -> ASGIApp:
    """Revoke a key."""
    text = str(request.path_params["id"])
    if not _UUID.fullmatch(text):
        message = f"there is no key {text!r}"
        raise NotFoundError(message)
    parts = parts_of(request)
    ended = keys.revoke(parts.sessions, UUID(text))
    parts.refresh_keys()
    return json_answer(KeyAnswer(**members_of(ended)))


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listChanges",
        tag=TAG,
        summary="List the changes that were asked for, newest first: by whom, and how they were answered.",
        query=PageQuery,
        scope=Scope.ADMIN,
        replies={200: Reply(description="One page.", bodies=(ChangePage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_changes(request: AnyRequest) -> ASGIApp:
    """List the changes."""
    query = read_query(request.scope, PageQuery)
    page = keys.page_of_changes(parts_of(request).sessions, page_request(query.limit, query.cursor))
    return json_answer(ChangePage(items=[_change(item) for item in page.items], next_cursor=page.next_cursor))


def members_of(stored: StoredKey) -> dict[str, Any]:
    """Return a key as it is shown: everything but its secret."""
    return {
        "id": str(stored.id),
        "name": stored.name,
        "prefix": f"hr_{stored.prefix}",
        "scopes": [scope.value for scope in Scope if scope in stored.scopes],
        "state": _state(stored),
        "created_at": timestamp(stored.created_at),
        "created_by": stored.created_by,
        "expires_at": timestamp_or_none(stored.expires_at),
        "revoked_at": timestamp_or_none(stored.revoked_at),
        "last_used_at": timestamp_or_none(stored.last_used_at),
        "rate": stored.rate,
        "quota": stored.quota,
    }


def _state(stored: StoredKey) -> str:
    if stored.revoked_at is not None:
        return "revoked"
    return "expired" if stored.expires_at is not None and stored.expires_at <= datetime.now(UTC) else "active"


def _change(stored: StoredAuditEvent) -> ChangeAnswer:
    event = stored.event
    return ChangeAnswer(
        at=timestamp(stored.created_at),
        principal=event.principal,
        key_id=None if event.key_id is None else str(event.key_id),
        operation=event.operation,
        method=event.method,
        path=event.path,
        status=event.status,
        request_id=event.request_id,
        peer=event.peer,
    )


router = Router(path="/v1/keys", route_handlers=[create, list_all, revoke])
audit = Router(path="/v1/audit", route_handlers=[list_changes])

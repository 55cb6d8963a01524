"""/v1/keys: keys and their scopes; /v1/audit: the log of changes."""

from datetime import UTC, datetime, timedelta
from typing import Any

from litestar import Request, Router, delete, get, post
from litestar.params import RawBody
from litestar.types import ASGIApp

from service.access.keys import NOBODY, Scope
from service.api.http.auth import get_principal
from service.api.http.decoding import read_body, read_query
from service.api.http.dependencies import get_dependencies
from service.api.http.names import LOCATION, read_id
from service.api.http.operation import BODY_PROBLEMS, STORED_PROBLEMS, Operation, Reply
from service.api.http.pagination import make_page_request
from service.api.http.responses import json_response
from service.base.errors import NotFoundError
from service.contract.schemas.access.keys import (
    ChangeAnswer,
    ChangePage,
    KeyAnswer,
    KeyId,
    KeyPage,
    KeyRequest,
    NewKeyAnswer,
)
from service.contract.schemas.fields import PageQuery, get_or_none
from service.contract.to_answer.timestamps import format_optional_timestamp, format_timestamp
from service.usecases.access import keys
from service.usecases.access.keys import NewKey, StoredAuditEvent, StoredKey

TAG = "keys"
EXAMPLE = {
    "name": "slurm-scheduler",
    "scopes": ["plan"],
    "expires_in_s": 7_776_000,
    "rate": "600/minute",
}
AnyRequest = Request[Any, Any, Any]


@post(
    "/",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="createKey",
        tag=TAG,
        summary="Make a key, which is shown this once.",
        description=(
            "What is kept is its SHA-256: whoever loses a key makes another one and revokes this."
        ),
        body=KeyRequest,
        example=EXAMPLE,
        scope=Scope.ADMIN,
        is_change=True,
        replies={
            201: Reply(
                description="The key.", bodies=(NewKeyAnswer,), headers={"Location": LOCATION}
            ),
        },
        problems=(*BODY_PROBLEMS, *STORED_PROBLEMS),
    ),
)
def create(request: AnyRequest, body: RawBody) -> ASGIApp:
    """Make a key."""
    payload = read_body(request.scope, body, KeyRequest)
    deps, seconds = get_dependencies(request), get_or_none(payload.expires_in_s)
    creator = get_principal(request.scope)
    new_key = NewKey(
        name=payload.name,
        scopes=frozenset(payload.scopes),
        created_by=NOBODY if creator is None else creator.name,
        expires_in=None if seconds is None else timedelta(seconds=seconds),
        rate=get_or_none(payload.rate),
        quota=get_or_none(payload.quota),
    )
    stored, text = keys.create(deps.sessions, new_key)
    deps.refresh_keys()
    answer = NewKeyAnswer(key=text, **render_key(stored))
    headers = {"location": f"/v1/keys/{stored.id}", "cache-control": "no-store"}
    return json_response(answer, status=201, headers=headers)


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
    page = keys.list_page(
        get_dependencies(request).sessions, make_page_request(query.limit, query.cursor)
    )
    return json_response(
        KeyPage(
            items=[KeyAnswer(**render_key(item)) for item in page.items],
            next_cursor=page.next_cursor,
        ),
    )


@delete(
    "/{id:str}",
    sync_to_thread=True,
    status_code=200,
    operation=Operation(
        id="revokeKey",
        tag=TAG,
        summary=(
            "Revoke a key: within a minute nobody is let in with it, at once by the process that "
            "is asked."
        ),
        path={"id": KeyId},
        scope=Scope.ADMIN,
        is_change=True,
        replies={200: Reply(description="The key as it ended.", bodies=(KeyAnswer,))},
        problems=(404, 422, *STORED_PROBLEMS),
    ),
)
def revoke(request: AnyRequest) -> ASGIApp:
    """Revoke a key."""
    identity = read_id(request)
    if identity is None:
        message = f"there is no key {request.path_params['id']!r}"
        raise NotFoundError(message)
    deps = get_dependencies(request)
    ended = keys.revoke(deps.sessions, identity)
    deps.refresh_keys()
    return json_response(KeyAnswer(**render_key(ended)))


@get(
    "/",
    sync_to_thread=True,
    operation=Operation(
        id="listChanges",
        tag=TAG,
        summary=(
            "List the changes that were asked for, newest first: by whom, and how they were "
            "answered."
        ),
        query=PageQuery,
        scope=Scope.ADMIN,
        replies={200: Reply(description="One page.", bodies=(ChangePage,))},
        problems=(422, *STORED_PROBLEMS),
    ),
)
def list_changes(request: AnyRequest) -> ASGIApp:
    """List the changes."""
    query = read_query(request.scope, PageQuery)
    page = keys.list_changes(
        get_dependencies(request).sessions, make_page_request(query.limit, query.cursor)
    )
    return json_response(
        ChangePage(items=[_build_change(item) for item in page.items], next_cursor=page.next_cursor)
    )


def render_key(stored: StoredKey) -> dict[str, Any]:
    """Return everything of a key but its secret."""
    return {
        "id": str(stored.id),
        "name": stored.name,
        "prefix": f"hr_{stored.prefix}",
        "scopes": [scope.value for scope in Scope if scope in stored.scopes],
        "state": _get_state(stored),
        "created_at": format_timestamp(stored.created_at),
        "created_by": stored.created_by,
        "expires_at": format_optional_timestamp(stored.expires_at),
        "revoked_at": format_optional_timestamp(stored.revoked_at),
        "last_used_at": format_optional_timestamp(stored.last_used_at),
        "rate": stored.rate,
        "quota": stored.quota,
    }


def _get_state(stored: StoredKey) -> str:
    if stored.revoked_at is not None:
        return "revoked"
    return (
        "expired"
        if stored.expires_at is not None and stored.expires_at <= datetime.now(UTC)
        else "active"
    )


def _build_change(stored: StoredAuditEvent) -> ChangeAnswer:
    event = stored.event
    return ChangeAnswer(
        at=format_timestamp(stored.created_at),
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

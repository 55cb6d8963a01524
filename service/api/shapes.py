"""Shapes that every resource shares: pages, times, entity tags, paths."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import cast

import msgspec
from litestar.types import ASGIApp, HTTPScope, Scope
from msgspec import UnsetType

from service.api.guard import principal_in
from service.api.responses import json_answer, not_modified
from service.errors import InvalidRequestError
from service.usecases.access import PageRequest
from service.usecases.idempotency import RequestKey
from service.usecases.preconditions import has_seen

_KEY = re.compile(r"[!-~]{1,128}")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
ETAG = "Version of the resource, for `If-Match`."
LOCATION = "Path of the new resource."
SEEN = "The reader has this version: `If-None-Match` names it."


def page_request(limit: int, cursor: str | UnsetType) -> PageRequest:
    """Return which page was asked for."""
    return PageRequest(limit=limit, cursor=None if isinstance(cursor, UnsetType) else cursor)


def timestamp(moment: datetime) -> str:
    """Return a time as RFC 3339 in UTC."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def timestamp_or_none(moment: datetime | None) -> str | None:
    """Return a time as RFC 3339 in UTC, if there is one."""
    return None if moment is None else timestamp(moment)


def etag_headers(etag: str) -> dict[str, str]:
    """Return the header that names the version."""
    return {"etag": f'"{etag}"'}


def header(scope: Scope, name: bytes) -> str | None:
    """Return a request header as text, several lines joined as RFC 9110 (sec. 5.3) says."""
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(values) if values else None


def versioned(scope: Scope, etag: str, shaped: Callable[[], object]) -> ASGIApp:
    """Answer with a version of a resource, or that its reader has it: for what nothing but a new version changes."""
    headers = etag_headers(etag)
    if has_seen(header(scope, b"if-none-match"), etag):
        return not_modified(headers)
    return json_answer(shaped(), headers=headers)


def request_key(scope: Scope, body: bytes, *, route: str) -> RequestKey | None:
    """Return what a request says may be repeated with the same answer; nothing without an ``Idempotency-Key``.

    Those who share a server choose their keys alone: one's is not another's.
    """
    key = header(scope, b"idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        message = "Idempotency-Key must be 1 to 128 visible ASCII characters, for example a UUID"
        raise InvalidRequestError(message, errors=[{"field": "Idempotency-Key", "message": message}])
    return RequestKey(key=key, route=f"{route}{_asker(scope)}", body=_as_said(body))


def _asker(scope: Scope) -> str:
    """Return whose request it is: a key's name, which its successor has too, or a token's subject; nothing without either."""
    principal = principal_in(cast("HTTPScope", scope))
    if principal is None or principal.counted_as is None:
        return ""
    return f" of {principal.subject or principal.name}"


def _as_said(body: bytes) -> bytes:
    """Return JSON without white space and the order of members: they mean nothing, and clients that ask again keep neither."""
    return msgspec.json.encode(msgspec.json.decode(body), order="sorted") if body else body


def is_stored_name(name: str) -> bool:
    """Tell whether anything can be stored under this name; what cannot is not looked for."""
    return _NAME.fullmatch(name) is not None


def require_same_name(path: str, body: str | UnsetType) -> None:
    """Refuse a body that names another resource than its path."""
    if not isinstance(body, UnsetType) and body != path:
        message = f"the path names {path!r}, the body {body!r}; a resource cannot be renamed"
        raise InvalidRequestError(message, errors=[{"field": "name", "message": message}])

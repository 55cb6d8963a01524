"""Entity tags and keys of repeated requests."""

import re
from collections.abc import Callable
from typing import cast

import msgspec
from litestar.types import ASGIApp, HTTPScope, Scope

from service.api.http.auth import principal_in
from service.api.http.responses import json_answer, not_modified
from service.base.errors import InvalidRequestError
from service.usecases.idempotency import RequestKey
from service.usecases.preconditions import has_seen

_KEY = re.compile(r"[!-~]{1,128}")
ETAG = "Version of the resource, for `If-Match`."
SEEN = "The reader has this version: `If-None-Match` names it."


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

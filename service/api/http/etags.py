"""Pages, timestamps, entity tags and idempotency keys of all resources."""

import re
from collections.abc import Callable
from typing import cast

import msgspec
from litestar.types import ASGIApp, HTTPScope, Scope

from service.api.http.auth import get_principal
from service.api.http.responses import json_response, not_modified
from service.base.errors import InvalidRequestError
from service.usecases.idempotency import RequestKey
from service.usecases.preconditions import is_not_modified

_KEY = re.compile(r"[!-~]{1,128}")
ETAG = "Version of the resource, for `If-Match`."
SEEN = "The reader has this version: `If-None-Match` names it."


def build_etag_headers(etag: str) -> dict[str, str]:
    """Return the header that names the version."""
    return {"etag": f'"{etag}"'}


def read_header(scope: Scope, name: bytes) -> str | None:
    """Return a request header as text.

    Several lines are joined as RFC 9110 (sec. 5.3) says.
    """
    values = [value.decode("latin-1") for key, value in scope["headers"] if key == name]
    return ", ".join(values) if values else None


def build_versioned_response(scope: Scope, etag: str, build: Callable[[], object]) -> ASGIApp:
    """Return a versioned answer, or 304 if unchanged.

    Only for resources that nothing but a new version changes.
    """
    headers = build_etag_headers(etag)
    if is_not_modified(read_header(scope, b"if-none-match"), etag):
        return not_modified(headers)
    return json_response(build(), headers=headers)


def read_request_key(scope: Scope, body: bytes, *, route: str) -> RequestKey | None:
    """Return the idempotency key of a request.

    ``None`` without an ``Idempotency-Key``. Clients that share a server choose their keys alone, so
    a key counts per requester.
    """
    key = read_header(scope, b"idempotency-key")
    if key is None:
        return None
    if not _KEY.fullmatch(key):
        message = "Idempotency-Key must be 1 to 128 visible ASCII characters, for example a UUID"
        raise InvalidRequestError(
            message, errors=[{"field": "Idempotency-Key", "message": message}]
        )
    return RequestKey(key=key, route=f"{route}{_get_requester(scope)}", body=_canonicalize(body))


def _get_requester(scope: Scope) -> str:
    """Return the requester as a suffix of the route.

    It is a key's name, which its successor has too, or a token's subject; empty without either.
    """
    principal = get_principal(cast("HTTPScope", scope))
    if principal is None or principal.usage_key is None:
        return ""
    return f" of {principal.subject or principal.name}"


def _canonicalize(body: bytes) -> bytes:
    """Return JSON without white space and with sorted members.

    Neither means anything, and clients that ask again keep neither.
    """
    return msgspec.json.encode(msgspec.json.decode(body), order="sorted") if body else body

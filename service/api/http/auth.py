"""Authentication and authorization of requests.

Applied after routing and before a body is read.
"""

import base64
import binascii
import os
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

import anyio
import anyio.to_thread
from litestar.types import HTTPScope

from service.access import keys
from service.access.keys import Principal, Scope, is_jwt
from service.access.origins import HOOKS, Headers, KnownNames, explain_not_local
from service.access.peers import FindUid, UnknownPeerError
from service.api.http.operation import Operation
from service.base.errors import ForbiddenError, UnauthorizedError
from service.usecases.access.keys import make_missing_key_error

FindKey = Callable[[str], Principal]
Throttle = Callable[[Principal, Operation], Awaitable[None]]

ALL_SCOPES = frozenset(Scope)
_ROOT = 0
LOCAL_USER = Principal(name=keys.LOCAL, scopes=ALL_SCOPES)
ANYBODY = Principal(name=keys.ANYBODY, scopes=ALL_SCOPES)
_PRINCIPAL_KEY = "principal"
_KEY_HEADERS = (b"authorization", b"x-api-key")
_ISSUER_THREADS = 4
"""Threads that may wait for the issuer of tokens at once; everybody else is answered meanwhile."""


class Access(StrEnum):
    """Access policy of a process.

    ``local`` lets in the user who runs the server without a key, and root, and others with one;
    ``keys`` holders of keys only, ``open`` everybody.
    """

    LOCAL = "local"
    KEYS = "keys"
    OPEN = "open"


class TokenVerifier(Protocol):
    """Verifier of an issuer's tokens."""

    def check(self, text: str) -> Principal | None:
        """Return the principal of a token without asking its issuer.

        ``None`` where the issuer must be asked.
        """

    def find(self, text: str) -> Principal:
        """Return the principal of a token, asking its issuer."""

    def refresh(self) -> None:
        """Read the issuer's keys anew, where that is due."""


async def allow_any_rate(_principal: Principal, _operation: Operation) -> None:
    """Apply no rate limit."""


class Guard:
    """Access control of requests.

    ``find`` looks up keys, ``throttle`` applies their limits, ``tokens`` verifies what an issuer
    signed, if one is set. ``find_uid`` says whose program is at the other end of a loopback
    connection; without it every user of this machine is local. ``names`` are those that the server
    is asked by.
    """

    def __init__(
        self,
        access: Access,
        *,
        find: FindKey,
        throttle: Throttle = allow_any_rate,
        tokens: TokenVerifier | None = None,
        find_uid: FindUid | None = None,
        names: KnownNames | None = None,
    ) -> None:
        """Store the policy; nothing is asked yet."""
        self._names = names or KnownNames()
        self._access = access
        self._find = find
        self._throttle = throttle
        self._tokens = tokens
        self._find_uid = find_uid
        self._issuer_limiter = (
            anyio.CapacityLimiter(_ISSUER_THREADS) if tokens is not None else None
        )

    async def admit(self, scope: HTTPScope, operation: Operation) -> None:
        """Record a request's principal and apply its rate limit.

        Raises ForbiddenError or UnauthorizedError where it is not allowed, and what ``throttle``
        raises past the limit.
        """
        if operation.scope is None:
            return
        principal = await self._authorize(scope, operation.scope)
        if principal.rate is not None:
            await self._throttle(principal, operation)

    async def readmit(self, scope: HTTPScope, operation: Operation) -> None:
        """Raise if the request would no longer be let in.

        Used while a stream goes on; it counts against no rate limit.
        """
        if operation.scope is not None:
            await self._authorize(scope, operation.scope)

    async def _authorize(self, scope: HTTPScope, needed: Scope) -> Principal:
        # Of a header that comes twice the last counts.
        headers = dict(scope["headers"])
        self._names.refuse_other_sites(scope["method"], headers)
        text = None if headers.keys().isdisjoint(_KEY_HEADERS) else read_key(scope)
        if (
            text is not None
            and self._tokens is not None
            and self._access is not Access.OPEN
            and is_jwt(text)
        ):
            principal = self._tokens.check(text) or await self._ask_issuer(self._tokens, text)
        else:
            principal = self._identify(scope, headers, text)
        scope["state"][_PRINCIPAL_KEY] = principal
        if not principal.has_scope(needed):
            what = "key" if principal.subject is None else "token"
            message = (
                f"this needs the scope {needed.value!r}, and the {what} has "
                f"{_format_scopes(principal.scopes)}"
            )
            raise ForbiddenError(message)
        return principal

    async def _ask_issuer(self, tokens: TokenVerifier, text: str) -> Principal:
        return await anyio.to_thread.run_sync(tokens.find, text, limiter=self._issuer_limiter)

    def _identify(self, scope: HTTPScope, headers: Headers, text: str | None) -> Principal:
        if self._access is Access.OPEN:
            self._names.require_name(scope["path"], headers)
            return ANYBODY
        if text is not None:
            return self._find(text)
        if self._access is Access.LOCAL:
            client = scope.get("client")
            reason = explain_not_local(None if client is None else client[0], headers)
            if (reason := reason or self._explain_stranger(scope)) is None:
                return LOCAL_USER
            message = (
                "without a key this server answers who runs it, on its own machine only, and this "
                f"request {reason}; send a key"
            )
            raise UnauthorizedError(message)
        raise make_missing_key_error()

    def _explain_stranger(self, scope: HTTPScope) -> str | None:
        """Explain why a loopback connection is another user's.

        Root may read the server's memory anyway.
        """
        client, server = scope.get("client"), scope.get("server")
        if self._find_uid is None or client is None or server is None or server[1] is None:
            return None
        try:
            uid = self._find_uid(client, (server[0], server[1]))
        except UnknownPeerError:
            return "came from a program that is gone"
        if uid is None or uid in {_ROOT, os.geteuid()}:
            return None
        return f"came from another user's program (uid {uid})"


def make_open_guard() -> Guard:
    """Make a guard that lets everybody in."""
    return Guard(Access.OPEN, find=lambda _text: ANYBODY)


def get_principal(scope: HTTPScope) -> Principal | None:
    """Return the principal of a request once it is known."""
    principal = scope.get("state", {}).get(_PRINCIPAL_KEY)
    return principal if isinstance(principal, Principal) else None


def require_principal(scope: HTTPScope) -> Principal:
    """Return the principal of a request; nobody's may do nothing."""
    return get_principal(scope) or Principal(name=keys.NOBODY, scopes=frozenset())


def read_key(scope: HTTPScope) -> str | None:
    """Read the key of a request.

    ``Authorization: Bearer …`` comes first, then ``X-API-Key``. Hooks also take the password of
    ``Authorization: Basic …``; elsewhere a browser that keeps one would speak for whoever typed it.
    """
    api_key = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            if kind.lower() == "basic" and scope["path"].startswith(HOOKS):
                return _read_password(text.strip())
            return text.strip() if kind.lower() == "bearer" else value.decode("latin-1")
        if name == b"x-api-key":
            api_key = value.decode("latin-1")
    return api_key


def _read_password(credentials: str) -> str:
    """Return the password of basic credentials.

    It is empty where they are none (RFC 7617).
    """
    try:
        text = base64.b64decode(credentials, validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
    return text.partition(":")[2]


def _format_scopes(scopes: frozenset[Scope]) -> str:
    return ", ".join(repr(scope.value) for scope in Scope if scope in scopes) or "none"

"""Who is let in to what: checked after routing and before a body is read."""

import ipaddress
from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Protocol
from urllib.parse import urlsplit

import anyio
import anyio.to_thread
from litestar.types import HTTPScope

from service.access import keys
from service.access.keys import Principal, Scope, looks_like_token
from service.api.http.operation import Operation
from service.base.errors import ForbiddenError, UnauthorizedError
from service.usecases.access.keys import missing_key

Find = Callable[[str], Principal]
Throttle = Callable[[Principal, Operation], Awaitable[None]]

EVERYTHING = frozenset(Scope)
LOCAL_USER = Principal(name=keys.LOCAL, scopes=EVERYTHING)
ANYBODY = Principal(name=keys.ANYBODY, scopes=EVERYTHING)
_FORWARDED = frozenset({b"forwarded", b"via", b"x-real-ip", b"x-client-ip", b"x-cluster-client-ip", b"true-client-ip"})
_FORWARDED_STARTS = (b"x-forwarded", b"x-original-", b"x-envoy-", b"cf-")
"""What proxies name their own headers by: RFC 7239's forerunners, ingress-nginx's originals, Envoy's and Cloudflare's."""
_STATE = "principal"
_ASKING = 4
"""Threads that may wait for the issuer of tokens at once; everybody else is answered meanwhile."""


class Access(StrEnum):
    """Whom a process lets in: this machine's users without a key and others with one, holders of keys only, or everybody."""

    LOCAL = "local"
    KEYS = "keys"
    OPEN = "open"


class Tokens(Protocol):
    """Knows whose tokens are let in."""

    def check(self, text: str) -> Principal | None:
        """Return who a token stands for, ``None`` where that takes a question to its issuer."""

    def find(self, text: str) -> Principal:
        """Return who a token stands for, having asked its issuer."""

    def refresh(self) -> None:
        """Read the issuer's keys anew, where that is due."""


async def unlimited(_principal: Principal, _operation: Operation) -> None:
    """Let everybody ask as often as he likes."""


class Guard:
    """Knows whom to let in; ``find`` knows keys, ``throttle`` limits, ``tokens`` what an issuer signs, if one is set."""

    def __init__(self, access: Access, *, find: Find, throttle: Throttle = unlimited, tokens: Tokens | None = None) -> None:
        """Prepare; nothing is asked yet."""
        self._access = access
        self._find = find
        self._throttle = throttle
        self._tokens = tokens
        self._asking = anyio.CapacityLimiter(_ASKING) if tokens is not None else None

    async def admit(self, scope: HTTPScope, operation: Operation) -> None:
        """Note who asks; raise if he may not, or not so often."""
        if operation.scope is None:
            return
        principal = await self._let_in(scope, operation.scope)
        if principal.rate is not None:
            await self._throttle(principal, operation)

    async def readmit(self, scope: HTTPScope, operation: Operation) -> None:
        """Raise if whoever was let in would not be now; what he is told meanwhile counts against no limit."""
        if operation.scope is not None:
            await self._let_in(scope, operation.scope)

    async def _let_in(self, scope: HTTPScope, needed: Scope) -> Principal:
        text = key_in(scope)
        if text is not None and self._tokens is not None and self._access is not Access.OPEN and looks_like_token(text):
            principal = self._tokens.check(text) or await self._ask_issuer(self._tokens, text)
        else:
            principal = self._identify(scope, text)
        scope["state"][_STATE] = principal
        if not principal.may(needed):
            what = "key" if principal.subject is None else "token"
            message = f"this needs the scope {needed.value!r}, and the {what} has {_listed(principal.scopes)}"
            raise ForbiddenError(message)
        return principal

    async def _ask_issuer(self, tokens: Tokens, text: str) -> Principal:
        return await anyio.to_thread.run_sync(tokens.find, text, limiter=self._asking)

    def _identify(self, scope: HTTPScope, text: str | None) -> Principal:
        if self._access is Access.OPEN:
            return ANYBODY
        if text is not None:
            return self._find(text)
        if self._access is Access.LOCAL:
            if (reason := _why_not_local(scope)) is None:
                return LOCAL_USER
            message = f"without a key this server answers its own machine only, and this request {reason}; send a key"
            raise UnauthorizedError(message)
        raise missing_key()


def open_guard() -> Guard:
    """Return a guard that lets everybody in."""
    return Guard(Access.OPEN, find=lambda _text: ANYBODY)


def principal_in(scope: HTTPScope) -> Principal | None:
    """Return who asked, once that is known."""
    found = scope.get("state", {}).get(_STATE)
    return found if isinstance(found, Principal) else None


def key_in(scope: HTTPScope) -> str | None:
    """Return the key that a request carries: ``Authorization: Bearer …``, else ``X-API-Key``."""
    other = None
    for name, value in scope["headers"]:
        if name == b"authorization":
            kind, _, text = value.decode("latin-1").partition(" ")
            return text.strip() if kind.lower() == "bearer" else value.decode("latin-1")
        if name == b"x-api-key":
            other = value.decode("latin-1")
    return other


def _why_not_local(scope: HTTPScope) -> str | None:
    """Say what shows that a request did not come from a program of this machine itself, if anything does."""
    client = scope.get("client")
    if client is not None and not _is_loopback(client[0]):
        return f"came from {client[0]}"
    headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
    if any(name in _FORWARDED or name.startswith(_FORWARDED_STARTS) for name in headers):
        return "came through a proxy"
    # A page that has its own name resolved to 127.0.0.1 would otherwise speak for whoever looks at it.
    host = headers.get(b"host")
    if host is not None and not _names_this_machine(host):
        return f"was meant for {host!r}"
    return _why_not_of_our_page(headers, host)


def _why_not_of_our_page(headers: Mapping[bytes, str], host: str | None) -> str | None:
    """Say what shows that a browser sent this for a page that is not of this very server; programs send neither header."""
    if headers.get(b"sec-fetch-site", "none") not in {"none", "same-origin"}:
        return "was sent by another site's page"
    origin = headers.get(b"origin")
    if origin is not None and origin.partition("://")[2] != host:
        return "was sent by another site's page"
    return None


@lru_cache(256)
def _names_this_machine(host: str) -> bool:
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return name == "localhost" or name.endswith(".localhost") or _is_loopback(name)


@lru_cache(256)
def _is_loopback(address: str) -> bool:
    try:
        return ipaddress.ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _listed(scopes: frozenset[Scope]) -> str:
    return ", ".join(repr(scope.value) for scope in Scope if scope in scopes) or "none"

"""Outermost middleware: request ids, HEAD, metrics and the audit log.

Stamps a request id on every answer, answers HEAD wherever there is GET, counts everything that was
answered and records changes.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from random import getrandbits
from time import perf_counter
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from service.access.keys import NOBODY
from service.api.http.auth import get_principal
from service.api.http.operation import Operation, get_success_status
from service.api.metrics.registry import Metrics
from service.base.server_versions import HEADER
from service.runtime.logs import get_logger
from service.telemetry.origin import Origin, read_traceparent, set_origin
from service.telemetry.spans import NO_SPAN, get_traceparent, is_traced, span
from service.telemetry.tracing import Kind, Span
from service.usecases.access.keys import AuditEvent, Change, follow_change

log = get_logger(__name__)

REQUEST_ID_HEADER = b"x-request-id"
VERSION_HEADER = HEADER.encode()
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT_HEADER = b"traceparent"
_NOT_TRACED = frozenset(("/healthz", "/readyz", "/metrics"))
"""Asked every few seconds by machines; a trace of each would hide the others."""
_MAX_PATH_CHARS = 512
"""Of a path in the log of changes; every path that names something is shorter."""
_SERVER_ERROR = 500
_UNROUTED = "unrouted"


class RequestMiddleware:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        *,
        version: str,
        access_log: bool = False,
        record_change: Callable[[AuditEvent], None] = lambda _event: None,
    ) -> None:
        """Wrap ``app`` and count its answers in ``metrics``.

        Every answer says ``version``. ``record_change`` receives every change; ``access_log`` logs
        a line for every request.
        """
        self._version = (VERSION_HEADER, version.encode())
        self._record_change = record_change
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == ScopeType.HTTP:
            await self._handle(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _handle(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        request_id, request_span = open_request(scope)
        with request_span as opened:
            outgoing = ResponseSend(send, self.list_headers(request_id))
            change = Change()
            scope["state"] = {"request_id": request_id.decode(), "change": change}
            with follow_change(change):
                route = await self._measure(scope, receive, outgoing)
            if opened is not NO_SPAN:
                describe_span(opened, scope, route, outgoing.status)
        await self._audit_change(scope, outgoing.status, change)

    def list_headers(self, request_id: bytes) -> tuple[tuple[bytes, bytes], tuple[bytes, bytes]]:
        """Return the headers that every answer has."""
        return (REQUEST_ID_HEADER, request_id), self._version

    def observe(self, scope: HTTPScope, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered, and log it."""
        self._metrics.observe(scope["method"], route, status, seconds)
        if self._access_log:
            log.info(
                "request.answered",
                method=scope["method"],
                path=scope["path"],
                status=status,
                duration_ms=round(seconds * 1000, 3),
                request_id=scope["state"]["request_id"],
            )

    async def _audit_change(self, scope: HTTPScope, status: int, change: Change) -> None:
        """Record who asked for a change, whatever came of it.

        Requests that only read are not recorded, nor those that matched no operation. What is
        already stored with the change itself is stored again where its status is another one.
        """
        operation = scope["state"].get("operation")
        if not isinstance(operation, Operation) or not operation.is_change:
            return
        event = build_audit_event(scope, operation, status)
        if get_principal(scope) is None:
            # Whoever has no key would fill the database for as long as he likes; a log is rotated.
            log.warning("change.not_let_in", **_collect_log_fields(event))
        else:
            if change.is_stored and status == get_success_status(operation):
                return
            await anyio.to_thread.run_sync(self._record_change, replace(event, id=change.event_id))

    async def _measure(
        self, requested: HTTPScope, receive: Receive, outgoing: "ResponseSend"
    ) -> str:
        """Forward a request, count it and return its route."""
        scope, started = requested, perf_counter()
        try:
            if scope["method"] == "HEAD":
                head = _HeadersOnly(outgoing)
                # The server keeps its own scope with HEAD in it: what is changed here is a copy.
                scope = HTTPScope(**{**scope, "method": "GET"})
                await self._app(scope, head.receive, head.send)
            else:
                await self._app(scope, receive, outgoing)
        finally:
            route = scope.get("path_template") or _UNROUTED
            self.observe(requested, route, outgoing.status, perf_counter() - started)
        return route


class ResponseSend:
    """Send channel that adds ids and versions, and records the status."""

    def __init__(self, send: Send, added: tuple[tuple[bytes, bytes], ...]) -> None:
        """Add some headers to an answer."""
        self._send = send
        self._added = added
        self.status = 0

    async def __call__(self, message: Message) -> None:
        """Send a message."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], *self._added]
        await self._send(message)


class _HeadersOnly:
    """Send channel of a HEAD request, which passes headers only.

    The body is dropped however long the answer to GET goes on.
    """

    def __init__(self, outgoing: ResponseSend) -> None:
        self._outgoing = outgoing
        self._finished = anyio.Event()

    async def send(self, message: Message) -> None:
        """Pass the headers on, then an empty body.

        What follows is dropped, but the sender can still be cancelled there.
        """
        if self._finished.is_set():
            await anyio.lowlevel.checkpoint()
        elif message["type"] == "http.response.start":
            await self._outgoing(message)
        else:
            await self._outgoing({"type": "http.response.body", "body": b"", "more_body": False})
            self._finished.set()

    async def receive(self) -> HTTPReceiveMessage:
        """Report a disconnect once the client has its headers.

        That ends a stream.
        """
        await self._finished.wait()
        return {"type": "http.disconnect"}


def build_audit_event(scope: HTTPScope, operation: Operation, status: int) -> AuditEvent:
    """Build the audit event of a request."""
    principal, client = get_principal(scope), scope.get("client")
    return AuditEvent(
        principal=NOBODY if principal is None else principal.name,
        key_id=None if principal is None or principal.key_id is None else UUID(principal.key_id),
        operation=operation.id,
        method=scope["method"],
        path=_escape_path(scope["path"]),
        status=status,
        request_id=str(scope["state"]["request_id"]),
        peer=None if client is None else client[0],
    )


def _collect_log_fields(event: AuditEvent) -> dict[str, object]:
    return {
        name: getattr(event, name)
        for name in ("operation", "method", "path", "status", "request_id", "peer")
    }


def _escape_path(path: str) -> str:
    """Escape and truncate a path for storage.

    Characters that cannot be printed are escaped, and what exceeds ``_MAX_PATH_CHARS`` is left out.
    """
    start = path[:_MAX_PATH_CHARS]
    text = "".join(
        mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in start
    )
    return (
        text
        if len(text) <= _MAX_PATH_CHARS and start == path
        else f"{text[: _MAX_PATH_CHARS - 1]}…"
    )


def _read_ids(scope: Scope) -> tuple[bytes, str | None]:
    """Return the request id and the client's traceparent.

    The id is the client's, or a fresh one where it sent none that is valid.
    """
    request_id, parent = None, None
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and _REQUEST_ID.fullmatch(value):
            request_id = value
        elif name == _TRACEPARENT_HEADER:
            parent = read_traceparent(value.decode("latin-1"))
    return request_id or _draw_id(), parent


def _draw_id() -> bytes:
    """Return an id that no other request has; it is no secret."""
    return b"%016x" % getrandbits(64)


def open_request(scope: HTTPScope) -> tuple[bytes, AbstractContextManager[Span]]:
    """Return the id of a request and its span, to be entered.

    Everything that is logged from there on has both.
    """
    request_id, parent = _read_ids(scope)
    if not is_traced() or scope["path"] in _NOT_TRACED:
        set_origin(Origin(request_id=request_id.decode(), traceparent=parent))
        return request_id, NO_SPAN
    return request_id, _open_span(scope, request_id, parent)


@contextmanager
def _open_span(scope: HTTPScope, request_id: bytes, parent: str | None) -> Iterator[Span]:
    with span(scope["method"], kind=Kind.SERVER, parent=parent) as opened:
        set_origin(Origin(request_id=request_id.decode(), traceparent=get_traceparent() or parent))
        yield opened


def describe_span(request_span: Span, scope: HTTPScope, route: str, status: int) -> None:
    """Set the span's attributes by OpenTelemetry's HTTP server conventions."""
    request_span.rename(f"{scope['method']} {route}")
    request_span.set_attributes(
        {
            "http.request.method": scope["method"],
            "http.route": route,
            "url.path": scope["path"],
            "http.response.status_code": status,
            "headroom.request_id": str(scope["state"]["request_id"]),
        },
    )
    if status >= _SERVER_ERROR:
        request_span.fail(f"status {status}")

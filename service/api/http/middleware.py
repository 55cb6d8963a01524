"""The outermost layer: request ids, HEAD wherever there is GET, and the count of everything that was answered."""

import re
import secrets
from collections.abc import Callable
from contextlib import AbstractContextManager
from time import perf_counter
from uuid import UUID

import anyio
import anyio.lowlevel
import anyio.to_thread
from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPReceiveMessage, HTTPScope, Message, Receive, Scope, Send

from service.access.keys import NOBODY
from service.api.http.auth import principal_in
from service.api.http.operation import Operation
from service.api.metrics.registry import Metrics
from service.runtime.logs import logger
from service.telemetry.origin import Origin, begin, read_traceparent
from service.telemetry.spans import NO_SPAN, Kind, Span, span, traceparent
from service.usecases.access.keys import AuditEvent

log = logger(__name__)

REQUEST_ID_HEADER = b"x-request-id"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_TRACEPARENT_HEADER = b"traceparent"
_NOT_TRACED = frozenset(("/healthz", "/readyz", "/metrics"))
"""Asked every few seconds by machines; a trace of each would hide the others."""
_MAX_PATH_CHARS = 512
"""Of a path in the log of changes; every path that names something is shorter."""
_FAULTS = 500
_UNROUTED = "unrouted"


class Edge:
    """An ASGI application around another one."""

    def __init__(
        self,
        app: ASGIApp,
        metrics: Metrics,
        *,
        access_log: bool = False,
        write_down: Callable[[AuditEvent], None] = lambda _event: None,
    ) -> None:
        """Wrap ``app``, count in ``metrics``, write changes down and, if asked, log a line for every request."""
        self._write_down = write_down
        self._app = app
        self._metrics = metrics
        self._access_log = access_log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == ScopeType.HTTP:
            await self._answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        request_id, sent = _ids(scope)
        with _span_of(scope, sent) as told:
            begin(Origin(request_id=request_id.decode(), traceparent=traceparent() or sent))
            answer = _Outgoing(send, request_id)
            route = await self._measure(scope, receive, answer)
            if told is not NO_SPAN:
                _describe(told, scope, route, answer.status)
        await self._note_change(scope, answer.status)

    async def _note_change(self, scope: HTTPScope, status: int) -> None:
        """Write down who asked for a change, whatever came of it; a question is none, nor what came to no operation."""
        operation = scope["state"].get("operation")
        if not isinstance(operation, Operation) or not operation.is_change:
            return
        event = _change(scope, operation, status)
        if principal_in(scope) is None:
            # Whoever has no key would fill the database for as long as he likes; a log is rotated.
            log.warning("change.not_let_in", **_facts(event))
        else:
            await anyio.to_thread.run_sync(self._write_down, event)

    async def _measure(self, scope: HTTPScope, receive: Receive, answer: "_Outgoing") -> str:
        """Pass a request on, count it, and return the route that it took."""
        request_id = answer.request_id.decode()
        method = scope["method"]
        scope["state"] = {"request_id": request_id}
        started = perf_counter()
        try:
            if method == "HEAD":
                head = _HeadersOnly(answer)
                # The server keeps its own scope with HEAD in it: what is changed here is a copy.
                scope = HTTPScope(**{**scope, "method": "GET"})
                await self._app(scope, head.receive, head.send)
            else:
                await self._app(scope, receive, answer)
        finally:
            route = scope.get("path_template") or _UNROUTED
            seconds = perf_counter() - started
            self._metrics.observe(method, route, answer.status, seconds)
            if self._access_log:
                log.info(
                    "request.answered",
                    method=method,
                    path=scope["path"],
                    status=answer.status,
                    duration_ms=round(seconds * 1000, 3),
                    request_id=request_id,
                )
        return route


class _Outgoing:
    """The way out of one request: stamps the id, remembers the status."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self.request_id = request_id
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (REQUEST_ID_HEADER, self.request_id)]
        await self._send(message)


class _HeadersOnly:
    """The way out of a HEAD request: the headers and nothing else, however long the answer to GET goes on."""

    def __init__(self, answer: _Outgoing) -> None:
        self._answer = answer
        self._over = anyio.Event()

    async def send(self, message: Message) -> None:
        """Pass the headers on, then an empty body; swallow what follows, but let the sender be cancelled."""
        if self._over.is_set():
            await anyio.lowlevel.checkpoint()
        elif message["type"] == "http.response.start":
            await self._answer(message)
        else:
            await self._answer({"type": "http.response.body", "body": b"", "more_body": False})
            self._over.set()

    async def receive(self) -> HTTPReceiveMessage:
        """Say that the client has left once it has its headers, which ends a stream."""
        await self._over.wait()
        return {"type": "http.disconnect"}


def _change(scope: HTTPScope, operation: Operation, status: int) -> AuditEvent:
    """Return what the log of changes keeps of a request."""
    principal, client = principal_in(scope), scope.get("client")
    return AuditEvent(
        principal=NOBODY if principal is None else principal.name,
        key_id=None if principal is None or principal.key_id is None else UUID(principal.key_id),
        operation=operation.id,
        method=scope["method"],
        path=_shown(scope["path"]),
        status=status,
        request_id=str(scope["state"]["request_id"]),
        peer=None if client is None else client[0],
    )


def _facts(event: AuditEvent) -> dict[str, object]:
    return {name: getattr(event, name) for name in ("operation", "method", "path", "status", "request_id", "peer")}


def _shown(path: str) -> str:
    """Return a path as it can be stored and read: what cannot be printed is escaped, and its end left out past a length."""
    start = path[:_MAX_PATH_CHARS]
    text = "".join(mark if mark.isprintable() else mark.encode("unicode_escape").decode() for mark in start)
    return text if len(text) <= _MAX_PATH_CHARS and start == path else f"{text[: _MAX_PATH_CHARS - 1]}…"


def _ids(scope: Scope) -> tuple[bytes, str | None]:
    """Return the id of a request, its client's or a fresh one, and the span that its client is in."""
    request_id, sent = None, None
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and _REQUEST_ID.fullmatch(value):
            request_id = value
        elif name == _TRACEPARENT_HEADER:
            sent = read_traceparent(value.decode("latin-1"))
    return request_id or secrets.token_hex(8).encode(), sent


def _span_of(scope: HTTPScope, sent: str | None) -> AbstractContextManager[Span]:
    if scope["path"] in _NOT_TRACED:
        return NO_SPAN
    return span(scope["method"], kind=Kind.SERVER, parent=sent)


def _describe(told: Span, scope: HTTPScope, route: str, status: int) -> None:
    """Say what was asked and answered, in the words of OpenTelemetry's conventions for HTTP servers."""
    told.rename(f"{scope['method']} {route}")
    told.note(
        {
            "http.request.method": scope["method"],
            "http.route": route,
            "url.path": scope["path"],
            "http.response.status_code": status,
            "headroom.request_id": str(scope["state"]["request_id"]),
        }
    )
    if status >= _FAULTS:
        told.fail(f"status {status}")

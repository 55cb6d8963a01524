"""The outermost layer: request ids, HEAD wherever there is GET, and the count of everything that was answered."""

import re
import secrets
from time import perf_counter
from typing import Any

from litestar.enums import ScopeType
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Scope, Send

from service.api.metrics import Metrics

REQUEST_ID_HEADER = b"x-request-id"
_REQUEST_ID = re.compile(rb"[A-Za-z0-9._:-]{1,128}")
_UNROUTED = "unrouted"


class Edge:
    """An ASGI application around another one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        """Wrap ``app`` and count in ``metrics``."""
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == ScopeType.HTTP:
            await self._answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _answer(self, scope: HTTPScope, receive: Receive, send: Send) -> None:
        request_id = _request_id(scope)
        answer = _Outgoing(send, request_id)
        is_head = scope["method"] == "HEAD"
        inner: Any = {**scope, "method": "GET"} if is_head else scope
        inner["state"] = {"request_id": request_id.decode()}
        started = perf_counter()
        try:
            await self._app(inner, answer.hang_up(receive) if is_head else receive, answer.bodiless if is_head else answer)
        finally:
            route = inner.get("path_template") or _UNROUTED
            self._metrics.observe(scope["method"], route, answer.status, perf_counter() - started)


class _Outgoing:
    """The way out of one request: stamps the id, remembers the status."""

    def __init__(self, send: Send, request_id: bytes) -> None:
        self._send = send
        self._request_id = request_id
        self._over = False
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            message["headers"] = [*message["headers"], (REQUEST_ID_HEADER, self._request_id)]
        await self._send(message)

    async def bodiless(self, message: Message) -> None:
        """Send the headers of an answer and nothing else, however long it goes on."""
        if self._over:
            return
        if message["type"] == "http.response.start":
            await self(message)
        elif message["type"] == "http.response.body":
            self._over = True
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    def hang_up(self, receive: Receive) -> Receive:
        """Return a receiver that says the client has left once the headers are out, which ends a stream."""

        async def receive_until_over() -> Any:  # noqa: ANN401  # an ASGI message
            return {"type": "http.disconnect"} if self._over else await receive()

        return receive_until_over


def _request_id(scope: Scope) -> bytes:
    for name, value in scope["headers"]:
        if name == REQUEST_ID_HEADER and _REQUEST_ID.fullmatch(value):
            return value
    return secrets.token_hex(8).encode()

"""Fast path around the router, for the operation that is asked most.

The router's own work takes longer than an answer from memory, and so do the layers around it. What
a client sees is the same on either way: ids, admission, limits, refusals, the route's name in
metrics and traces.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from time import perf_counter

from litestar import Request
from litestar.enums import ScopeType
from litestar.exceptions import InternalServerException
from litestar.types import ASGIApp, HTTPScope, Receive, Scope, Send

from service.api.http.admission import admit_request
from service.api.http.decoding import MAX_BODY_BYTES
from service.api.http.dependencies import Dependencies
from service.api.http.middleware import RequestMiddleware, ResponseSend, describe_span, open_request
from service.api.http.operation import Operation
from service.api.http.problems import CLIENT_LEFT, build_error_response
from service.api.http.responses import BytesResponse
from service.base.errors import BodyTooLargeError
from service.telemetry.spans import NO_SPAN

Respond = Callable[[Dependencies, HTTPScope, Receive, bytes], Awaitable[ASGIApp]]


@dataclass(frozen=True, slots=True, kw_only=True)
class FastRoute:
    """One POST operation of one path without parameters, which changes nothing.

    The router has the same operation, and answers whatever spells the path otherwise.
    """

    path: str
    operation: Operation
    respond: Respond


class FastPathMiddleware:
    """Outermost layer, which answers one route itself and passes everything else on."""

    def __init__(self, edge: RequestMiddleware, deps: Dependencies, route: FastRoute) -> None:
        """Wrap the layer that is outermost for all other routes."""
        self._edge = edge
        self._deps = deps
        self._route = route

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if (
            scope["type"] != ScopeType.HTTP
            or scope["path"] != self._route.path
            or scope["method"] != "POST"
        ):
            await self._edge(scope, receive, send)
            return
        request_id, request_span = open_request(scope)
        with request_span as opened:
            scope["state"] = {"request_id": request_id.decode()}
            status, started = 0, perf_counter()
            try:
                response = await self._respond(scope, receive)
                if isinstance(response, BytesResponse):
                    status = response.status
                    headers = [*response.headers, *self._edge.list_headers(request_id)]
                    await send(
                        {"type": "http.response.start", "status": status, "headers": headers}
                    )
                    await send(
                        {"type": "http.response.body", "body": response.body, "more_body": False}
                    )
                else:
                    outgoing = ResponseSend(send, self._edge.list_headers(request_id))
                    await response(scope, receive, outgoing)
                    status = outgoing.status
            finally:
                self._edge.observe(scope, self._route.path, status, perf_counter() - started)
            if opened is not NO_SPAN:
                describe_span(opened, scope, self._route.path, status)

    async def _respond(self, scope: HTTPScope, receive: Receive) -> ASGIApp:
        route = self._route
        try:
            await admit_request(self._deps.guard, scope, route.operation)
            return await route.respond(self._deps, scope, receive, await _read(scope, receive))
        except Exception as error:  # noqa: BLE001 - the router makes a problem of every error as well
            return build_error_response(Request(scope), error)


async def _read(scope: HTTPScope, receive: Receive) -> bytes:
    """Return the body of a request.

    One that announces too many bytes is refused before it is read.
    """
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            _check_size(int(value))
    body, is_whole = b"", False
    while not is_whole:
        message = await receive()
        if message["type"] != "http.request":
            # As the framework has it; nobody is there to read it.
            raise InternalServerException(CLIENT_LEFT)
        body += message.get("body", b"")
        _check_size(len(body))
        is_whole = not message.get("more_body", False)
    return body


def _check_size(num_bytes: int) -> None:
    if num_bytes > MAX_BODY_BYTES:
        message = f"the body is larger than {MAX_BODY_BYTES:,} bytes"
        raise BodyTooLargeError(message)

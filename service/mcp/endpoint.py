"""MCP over HTTP: ``/mcp`` of the API, with the API's own keys.

A tool asks the very application that it is part of, in the caller's name: who may do what, limits,
metrics and refusals are those of the API. It keeps no sessions, so that any replica answers. The
SDK, a second of a process's start, is loaded for the first who speaks it.
"""

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from http import HTTPStatus
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import httpx
from anyio.abc import TaskGroup, TaskStatus
from litestar import Litestar, Request
from litestar.enums import ScopeType
from litestar.exceptions import HTTPException
from litestar.types import ASGIApp, Receive, Scope, Send

from service.access.keys import Scope as KeyScope
from service.api.http.auth import Guard, get_principal
from service.api.http.operation import Operation
from service.api.http.operation import Reply as OperationReply
from service.api.http.problems import build_error_response
from service.mcp.asking import Call, Document, Reply
from service.mcp.requests import HttpRequest, build_request

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

PATH = "/mcp"
_SDK = "mcp.server.streamable_http_manager"
_OPERATION = Operation(
    id="callTools",
    tag="mcp",
    summary="Speak the Model Context Protocol.",
    replies={200: OperationReply(description="An answer of the protocol.")},
)
_METHODS = ("POST",)
_OWN_HEADERS = frozenset(
    {
        *(b"accept", b"accept-encoding", b"connection", b"content-length", b"content-type"),
        *(b"transfer-encoding", b"mcp-session-id", b"mcp-protocol-version", b"last-event-id"),
        *(b"idempotency-key", b"if-match", b"if-none-match", b"x-request-id", b"traceparent"),
    }
)
"""Headers of the request to ``/mcp`` itself, or of the protocol; all others say who asks."""


class McpEndpoint:
    """Middleware that answers ``/mcp`` and passes everything else on."""

    def __init__(self, guard: Guard, *, version: str) -> None:
        """Let in whom ``guard`` lets in."""
        self._guard, self._version = guard, version
        self._loading, self._speak = anyio.Lock(), _refuse_before_start
        self._tasks: TaskGroup | None = None
        self._application: ASGIApp | None = None

    def wrap(self, inner: ASGIApp) -> ASGIApp:
        """Return the application with the endpoint before it."""
        return partial(self._answer, inner)

    def bind(self, application: ASGIApp) -> None:
        """Set the application that tools ask, which this endpoint is part of."""
        self._application = application

    @asynccontextmanager
    async def lifespan(self, _app: Litestar) -> AsyncIterator[None]:
        """Run what answers for as long as the application runs."""
        async with anyio.create_task_group() as self._tasks:
            yield
            self._tasks.cancel_scope.cancel()

    async def _answer(self, inner: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != ScopeType.HTTP or scope["path"].rstrip("/") != PATH:
            await inner(scope, receive, send)
            return
        scope["path_template"] = PATH
        try:
            # A tool's own request counts against the limits of a key, so that this one does not.
            await self._guard.readmit(scope, _OPERATION)
            _check_method(scope["method"])
        except Exception as error:  # noqa: BLE001 - the router makes a problem of every error as well
            await build_error_response(Request(scope), error)(scope, receive, send)
            return
        async with self._loading:
            if self._speak is _refuse_before_start and self._tasks is not None:
                self._speak = await self._tasks.start(self._run)
        await self._speak(scope, receive, send)

    async def _run(self, *, task_status: TaskStatus[ASGIApp]) -> None:
        """Run the protocol, and tell who speaks it."""
        manager = await anyio.to_thread.run_sync(self._load)
        async with manager.run():
            task_status.started(manager.handle_request)  # type: ignore[arg-type]  # ASGI's types by other names
            await anyio.sleep_forever()

    def _load(self) -> "StreamableHTTPSessionManager":
        manager: type[StreamableHTTPSessionManager] = import_module(
            _SDK
        ).StreamableHTTPSessionManager
        make_server = import_module("service.mcp.server").make_server
        server = make_server(version=self._version, ask=self._ask, get_scopes=_get_scopes)
        return manager(server, json_response=True, stateless=True)

    async def _ask(self, call: Call, scope: Mapping[str, Any] | None) -> Reply:
        assert self._application is not None  # noqa: S101 - it is bound before it is asked
        assert scope is not None  # noqa: S101 - HTTP carries every call
        transport = httpx.ASGITransport(
            app=self._application,  # type: ignore[arg-type]  # the same
            raise_app_exceptions=False,
            client=scope.get("client") or ("127.0.0.1", 0),
        )
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=_copy_headers(scope)
        ) as client:
            return await _send_all(client, call)


async def _refuse_before_start(_scope: Scope, _receive: Receive, _send: Send) -> None:
    message = "MCP is spoken while the application runs"
    raise RuntimeError(message)


def _check_method(method: str) -> None:
    """Refuse methods of sessions, which there are none of."""
    if method not in _METHODS:
        allowed = ", ".join(_METHODS)
        raise HTTPException(
            status_code=HTTPStatus.METHOD_NOT_ALLOWED,
            detail=f"{method} is not allowed here; allowed: {allowed}",
            headers={"allow": allowed},
        )


async def _send_all(client: httpx.AsyncClient, call: Call) -> Reply:
    """Send a call; of a list, read every page."""
    reply = await _send(client, build_request(call))
    if call.operation != "list" or reply.is_problem:
        return reply
    items, page = list(reply.document["items"]), reply
    while cursor := page.document["next_cursor"]:
        page = await _send(client, build_request(call, cursor=cursor))
        if page.is_problem:
            return page
        items += page.document["items"]
    return Reply(document={"items": items})


async def _send(client: httpx.AsyncClient, request: HttpRequest) -> Reply:
    response = await client.request(
        request.method,
        request.path,
        params=dict(request.query),
        headers=dict(request.headers),
        json=request.body,
    )
    document: Document = response.json() if response.content else {}
    return Reply(document=document, is_problem=not response.is_success)


def _get_scopes(scope: Mapping[str, Any] | None) -> Collection[KeyScope]:
    principal = None if scope is None else get_principal(scope)  # type: ignore[arg-type]  # an HTTP scope
    return (
        () if principal is None else [needed for needed in KeyScope if principal.has_scope(needed)]
    )


def _copy_headers(scope: Mapping[str, Any]) -> list[tuple[bytes, bytes]]:
    return [(name, value) for name, value in scope["headers"] if name not in _OWN_HEADERS]

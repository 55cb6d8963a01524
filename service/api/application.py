"""The Litestar application: routes, refusals and limits.

Everything it works with comes in as dependencies.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from typing import Any, Protocol

import msgspec
from litestar import Litestar, Request, Router
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from service.api.http import docs
from service.api.http.admission import admit_request
from service.api.http.decoding import MAX_BODY_BYTES
from service.api.http.dependencies import Dependencies
from service.api.http.fast_path import FastPathMiddleware, FastRoute
from service.api.http.middleware import RequestMiddleware
from service.api.http.openapi import build_document
from service.api.http.operation import Operation
from service.api.http.options import OptionsMiddleware
from service.api.http.problems import HANDLERS

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


class Extension(Protocol):
    """Endpoint of another protocol, inside of the application it asks."""

    def wrap(self, inner: ASGIApp) -> ASGIApp:
        """Return the application with the endpoint before it."""

    def bind(self, application: ASGIApp) -> None:
        """Set the application that is asked."""

    def lifespan(self, app: Litestar) -> AbstractAsyncContextManager[None]:
        """Run for as long as the application runs."""


def make_application(
    deps: Dependencies,
    *,
    handlers: Sequence[Router | HTTPRouteHandler],
    fast_route: FastRoute | None = None,
    lifespan: Sequence[Lifespan] = (),
    extension: Extension | None = None,
) -> ASGIApp:
    """Return the application that answers with ``deps``.

    ``fast_route`` is one of the handlers' operations, which is answered without the router.
    """
    app = Litestar(
        route_handlers=[*handlers, docs.router],
        exception_handlers=HANDLERS,
        before_request=admit,
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"parts": deps}),
        lifespan=[*lifespan, *(() if extension is None else (extension.lifespan,))],
        openapi_config=None,
        logging_config=None,
    )
    app.state.openapi = cache(partial(_encode_document, app, deps.version))
    routed: ASGIApp = OptionsMiddleware(app)
    edge = RequestMiddleware(
        routed if extension is None else extension.wrap(routed),
        deps.metrics,
        version=deps.version,
        access_log=deps.settings.access_log,
        record_change=deps.record_change,
    )
    outermost: ASGIApp = edge if fast_route is None else FastPathMiddleware(edge, deps, fast_route)
    if extension is not None:
        extension.bind(outermost)
    return outermost


def _encode_document(app: Litestar, version: str) -> bytes:
    return msgspec.json.encode(build_document(app, version=version))


async def admit(request: Request[Any, Any, Any]) -> None:
    """Authorize a routed request and check its query parameters."""
    operation: Operation | None = request.route_handler.opt.get("operation")
    if operation is not None:
        deps: Dependencies = request.app.state.parts
        await admit_request(deps.guard, request.scope, operation)

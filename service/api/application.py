"""The Litestar application: routes, refusals and limits.

Everything it works with comes in as dependencies.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from litestar import Litestar, Request, Router
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from service.api.http import docs
from service.api.http.decoding import MAX_BODY_BYTES, read_query
from service.api.http.dependencies import Dependencies
from service.api.http.middleware import RequestMiddleware
from service.api.http.openapi import build_document
from service.api.http.operation import Operation
from service.api.http.options import OptionsMiddleware
from service.api.http.problems import HANDLERS
from service.contract.schemas.fields import NoQuery

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def make_application(
    deps: Dependencies,
    *,
    handlers: Sequence[Router | HTTPRouteHandler],
    lifespan: Sequence[Lifespan] = (),
) -> ASGIApp:
    """Return the application that answers with ``deps``."""
    app = Litestar(
        route_handlers=[*handlers, docs.router],
        exception_handlers=HANDLERS,
        before_request=admit,
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"parts": deps}),
        lifespan=list(lifespan),
        openapi_config=None,
        logging_config=None,
    )
    app.state.openapi = msgspec.json.encode(build_document(app, version=deps.version))
    return RequestMiddleware(
        OptionsMiddleware(app),
        deps.metrics,
        access_log=deps.settings.access_log,
        record_change=deps.record_change,
    )


async def admit(request: Request[Any, Any, Any]) -> None:
    """Authorize a request and check its query parameters."""
    operation: Operation | None = request.route_handler.opt.get("operation")
    if operation is None:
        return
    request.scope["state"]["operation"] = operation
    deps: Dependencies = request.app.state.parts
    await deps.guard.admit(request.scope, operation)
    refuse_parameters(request, operation)


def refuse_parameters(request: Request[Any, Any, Any], operation: Operation) -> None:
    """Refuse query parameters of an operation that documents none.

    An operation that documents some reads them itself. Probes and scrapers add parameters of their
    own to the operational endpoints, which ignore them.
    """
    if not request.scope["query_string"] or not request.scope["path"].startswith("/v1/"):
        return
    if operation.query is None:
        read_query(request.scope, NoQuery)

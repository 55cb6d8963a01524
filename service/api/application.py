"""The Litestar application: routes, refusals, limits; everything it works with comes in as parts."""

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
from service.api.http.dependencies import Parts
from service.api.http.middleware import Edge
from service.api.http.openapi import document
from service.api.http.operation import Operation
from service.api.http.options import Options
from service.api.http.problems import HANDLERS
from service.contract.schemas.fields import NoQuery

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def make_application(
    parts: Parts, *, handlers: Sequence[Router | HTTPRouteHandler], lifespan: Sequence[Lifespan] = ()
) -> ASGIApp:
    """Return the application that answers with ``parts``."""
    app = Litestar(
        route_handlers=[*handlers, docs.router],
        exception_handlers=HANDLERS,
        before_request=admit,
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"parts": parts}),
        lifespan=list(lifespan),
        openapi_config=None,
        logging_config=None,
    )
    app.state.openapi = msgspec.json.encode(document(app, version=parts.version))
    return Edge(Options(app), parts.metrics, access_log=parts.settings.access_log, write_down=parts.write_down)


async def admit(request: Request[Any, Any, Any]) -> None:
    """Let in whoever may ask for this operation, and refuse parameters that it does not have."""
    operation: Operation | None = request.route_handler.opt.get("operation")
    if operation is None:
        return
    request.scope["state"]["operation"] = operation
    parts: Parts = request.app.state.parts
    await parts.guard.admit(request.scope, operation)
    refuse_parameters(request, operation)


def refuse_parameters(request: Request[Any, Any, Any], operation: Operation) -> None:
    """Refuse query parameters where an operation of the API documents none; one that documents some reads them itself.

    Probes and scrapers add parameters of their own to the operational endpoints, which ignore them.
    """
    if not request.scope["query_string"] or not request.scope["path"].startswith("/v1/"):
        return
    if operation.query is None:
        read_query(request.scope, NoQuery)

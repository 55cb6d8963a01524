"""The Litestar application: routes, refusals, limits; everything it works with comes in as parts."""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec
from litestar import Litestar, Router
from litestar.datastructures import State
from litestar.handlers import HTTPRouteHandler
from litestar.types import ASGIApp

from service.api import docs
from service.api.decoding import MAX_BODY_BYTES
from service.api.edge import Edge
from service.api.openapi import document
from service.api.parts import Parts
from service.api.problems import HANDLERS

Lifespan = Callable[[Litestar], AbstractAsyncContextManager[None]]


def make_application(
    parts: Parts, *, handlers: Sequence[Router | HTTPRouteHandler], lifespan: Sequence[Lifespan] = ()
) -> ASGIApp:
    """Return the application that answers with ``parts``."""
    app = Litestar(
        route_handlers=[*handlers, docs.router],
        exception_handlers=HANDLERS,
        request_max_body_size=MAX_BODY_BYTES,
        state=State({"parts": parts}),
        lifespan=list(lifespan),
        openapi_config=None,
        logging_config=None,
    )
    app.state.openapi = msgspec.json.encode(document(app, version=parts.version))
    return Edge(app, parts.metrics, access_log=parts.settings.access_log)

"""Whoever asks may leave before the answer is there, as a page does whose question moved on: nobody computes for them."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from litestar import Request
from litestar.types import ASGIApp

from service.api.http.responses import Whole
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.questions.fit import FindCorrections

CLIENT_LEFT = 499
"""nginx's status for a request whose client closed the connection (ngx_http_request.h); nobody is there to read it."""


async def unless_left(request: Request[Any, Any, Any], answer: Callable[[], Awaitable[ASGIApp]]) -> ASGIApp:
    """Return the answer; once the client is gone it is given up.

    Work in a thread gives up where it calls ``anyio.from_thread.check_cancelled``. The body must have been read.
    """
    found: ASGIApp = Whole(b"", status=CLIENT_LEFT, headers=[])
    refusal: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_give_up_when_left, request, group.cancel_scope)
        try:
            found = await answer()
        except Exception as error:  # noqa: BLE001 - raised below: a task group would wrap it, and nobody would know it
            refusal = error
        group.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    return found


async def in_thread_unless_left(request: Request[Any, Any, Any], answer: Callable[[], ASGIApp]) -> ASGIApp:
    """Return an answer that is computed beside the event loop; once the client is gone it is given up."""
    return await unless_left(request, partial(anyio.to_thread.run_sync, answer))


def while_wanted(find: FindCorrections) -> FindCorrections:
    """Find what was learnt, which comes before every estimate, in a thread that gives up there once nobody waits for it."""

    def found(architecture: Architecture, workload: Workload, layout: Layout, gpu: str) -> Corrections | None:
        anyio.from_thread.check_cancelled()
        return find(architecture, workload, layout, gpu)

    return found


async def _give_up_when_left(request: Request[Any, Any, Any], work: anyio.CancelScope) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    work.cancel()

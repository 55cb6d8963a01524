"""Cancellation of work whose client has disconnected.

A page does that when its question moves on before the answer is there.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
from litestar import Request
from litestar.types import ASGIApp, Receive

from service.api.http.responses import BytesResponse
from service.estimator.model.architecture import Architecture
from service.estimator.values.corrections import Corrections
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.usecases.questions.fit import FindCorrections, get_time_floor

CLIENT_CLOSED_REQUEST = 499
"""nginx's status for a request whose client closed the connection (ngx_http_request.h); nobody is
there to read it.
"""


async def run_until_disconnect(
    receive: Receive, answer: Callable[[], Awaitable[ASGIApp]]
) -> ASGIApp:
    """Return the answer, or cancel it once the client disconnects.

    Work in a thread gives up where it calls ``anyio.from_thread.check_cancelled``. The body must
    have been read.
    """
    response: ASGIApp = BytesResponse(b"", status=CLIENT_CLOSED_REQUEST, headers=[])
    refusal: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(_cancel_on_disconnect, receive, group.cancel_scope)
        try:
            response = await answer()
        except Exception as error:  # noqa: BLE001 - raised below: a task group would wrap it, and nobody would know it
            refusal = error
        group.cancel_scope.cancel()
    if refusal is not None:
        raise refusal
    return response


async def run_in_thread_until_disconnect(
    request: Request[Any, Any, Any], answer: Callable[[], ASGIApp]
) -> ASGIApp:
    """Compute an answer in a thread, cancelled on disconnect."""
    return await run_until_disconnect(request.receive, partial(anyio.to_thread.run_sync, answer))


def make_cancellable(find: FindCorrections) -> FindCorrections:
    """Make a corrections lookup raise once its request is cancelled.

    The lookup comes before every estimate, so a thread gives up there once nobody waits for it.
    """
    return _CancellableLookup(find=find)


@dataclass(frozen=True, slots=True, kw_only=True)
class _CancellableLookup:
    find: FindCorrections

    def __call__(
        self, architecture: Architecture, workload: Workload, layout: Layout, gpu: str
    ) -> Corrections | None:
        anyio.from_thread.check_cancelled()
        return self.find(architecture, workload, layout, gpu)

    def get_time_floor(self, gpu: str) -> float:
        return get_time_floor(self.find, gpu)


async def _cancel_on_disconnect(receive: Receive, work: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()

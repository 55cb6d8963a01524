"""Cancellation of work whose client has disconnected.

A page does that when its question moves on before the answer is there.
"""

from collections.abc import Awaitable, Callable

import anyio
from litestar.types import ASGIApp, Receive

from service.api.http.responses import BytesResponse

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


async def _cancel_on_disconnect(receive: Receive, work: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    work.cancel()

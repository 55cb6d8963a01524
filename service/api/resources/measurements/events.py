"""Server-sent events of one measurement.

Replayed from any id, kept alive by comments, ended by the last status.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from time import monotonic

import anyio
import anyio.to_thread
import msgspec
from litestar.enums import ScopeType
from litestar.response.streaming import ASGIStreamingResponse
from litestar.types import Receive, Scope, Send

from service.api.computing.streams import LEAST_POLL_S, OpenStreams
from service.api.http.computing import get_asker
from service.base.errors import ForbiddenError, UnauthorizedError, UnavailableError
from service.usecases.jobs.measurements import EventBatch
from service.usecases.stored import StoredEvent

HEARTBEAT_S = 15.0
RETRY_MS = 2000
_HEARTBEAT = b": still here\n\n"

ReadAfter = Callable[[int], EventBatch]
Readmit = Callable[[], Awaitable[None]]
"""Raises once whoever listens would no longer be let in."""


class EventStream:
    """Response that streams events until the job is over.

    It sends ``first``, which was read after event ``seq``, and what follows. It also ends when the
    key is no longer let in.
    """

    def __init__(
        self,
        first: EventBatch,
        seq: int,
        read_after: ReadAfter,
        readmit: Readmit,
        *,
        streams: OpenStreams,
    ) -> None:
        """Prepare; whether there are too many is asked when it begins."""
        self._streams = streams
        self._response = ASGIStreamingResponse(
            iterator=iter_chunks(first, seq, read_after, readmit, get_poll_s=streams.get_poll_s),
            media_type="text/event-stream",
            headers={"cache-control": "no-store", "x-accel-buffering": "no"},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Stream, as one of the caller's."""
        assert scope["type"] == ScopeType.HTTP  # noqa: S101 - the route is one of HTTP
        with self._streams.hold(get_asker(scope)):
            await self._response(scope, receive, send)


async def iter_chunks(
    batch: EventBatch,
    seq: int,
    read_after: ReadAfter,
    readmit: Readmit,
    *,
    heartbeat_s: float = HEARTBEAT_S,
    get_poll_s: Callable[[], float] = lambda: LEAST_POLL_S,
) -> AsyncIterator[bytes]:
    """Yield the stream's chunks, with a comment as heartbeat.

    The comment breaks silence of ``heartbeat_s`` seconds.
    """
    yield f"retry: {RETRY_MS}\n\n".encode()
    sent_at = monotonic()
    while True:
        if batch.events:
            seq = batch.events[-1].seq
            sent_at = monotonic()
            yield render(batch.events)
        elif monotonic() - sent_at >= heartbeat_s:
            sent_at = monotonic()
            yield _HEARTBEAT
        if batch.is_last:
            return
        await anyio.sleep(get_poll_s())
        try:
            batch = await _read(read_after, seq, readmit)
        except (UnauthorizedError, ForbiddenError):
            # Its status is long sent: whoever comes back for more is told why there is none.
            return


async def _read(read_after: ReadAfter, seq: int, readmit: Readmit) -> EventBatch:
    try:
        await readmit()
        return await anyio.to_thread.run_sync(partial(read_after, seq))
    except UnavailableError:
        # The client is better off waiting on this stream than reconnecting to a service without its
        # database.
        return EventBatch(events=(), is_last=False)


def render(events: Sequence[StoredEvent]) -> bytes:
    """Return events in the format of the HTML standard, section 9.2."""
    return b"".join(
        b"id: %d\nevent: %b\ndata: %b\n\n"
        % (event.seq, event.kind.encode(), msgspec.json.encode(event.data))
        for event in events
    )

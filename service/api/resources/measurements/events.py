"""Server-sent events of one measurement: replayed from any id, kept alive by comments, ended by the last status."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from time import monotonic

import anyio
import anyio.to_thread
import msgspec
from litestar.response.streaming import ASGIStreamingResponse

from service.base.errors import ForbiddenError, UnauthorizedError, UnavailableError
from service.usecases.jobs.measurements import EventBatch
from service.usecases.stored import StoredEvent

POLL_S = 0.25
HEARTBEAT_S = 15.0
RETRY_MS = 2000
_HEARTBEAT = b": still here\n\n"

ReadAfter = Callable[[int], EventBatch]
Readmit = Callable[[], Awaitable[None]]
"""Raises once whoever listens would no longer be let in."""


def event_stream(first: EventBatch, seq: int, read_after: ReadAfter, readmit: Readmit) -> ASGIStreamingResponse:
    """Return a response that sends ``first``, read after event ``seq``, and what follows until the job or the key is over."""
    return ASGIStreamingResponse(
        iterator=chunks(first, seq, read_after, readmit),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def chunks(
    batch: EventBatch, seq: int, read_after: ReadAfter, readmit: Readmit, *, heartbeat_s: float = HEARTBEAT_S
) -> AsyncIterator[bytes]:
    """Yield what is sent; silence of ``heartbeat_s`` seconds is broken by a comment."""
    yield f"retry: {RETRY_MS}\n\n".encode()
    spoke_at = monotonic()
    while True:
        if batch.events:
            seq = batch.events[-1].seq
            spoke_at = monotonic()
            yield render(batch.events)
        elif monotonic() - spoke_at >= heartbeat_s:
            spoke_at = monotonic()
            yield _HEARTBEAT
        if batch.is_last:
            return
        await anyio.sleep(POLL_S)
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
        # The client is better off waiting on this stream than reconnecting to a service without its database.
        return EventBatch(events=(), is_last=False)


def render(events: Sequence[StoredEvent]) -> bytes:
    """Return events in the format of the HTML standard, section 9.2."""
    return b"".join(
        b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, event.kind.encode(), msgspec.json.encode(event.data))
        for event in events
    )

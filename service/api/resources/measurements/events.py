"""Server-sent events of one measurement.

Replayed from any id, kept alive by comments, ended by the last status.
"""

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


def stream_events(
    first: EventBatch, seq: int, read_after: ReadAfter, readmit: Readmit
) -> ASGIStreamingResponse:
    """Return a stream of events until the job is over.

    It sends ``first``, which was read after event ``seq``, and what follows. It also ends when the
    key is no longer let in.
    """
    return ASGIStreamingResponse(
        iterator=iter_chunks(first, seq, read_after, readmit),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )


async def iter_chunks(
    batch: EventBatch,
    seq: int,
    read_after: ReadAfter,
    readmit: Readmit,
    *,
    heartbeat_s: float = HEARTBEAT_S,
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

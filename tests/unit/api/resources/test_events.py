"""The event stream: format, order, heartbeats, and a database that goes away in between."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

import pytest

from service.api.resources.measurements.events import iter_chunks, render
from service.base.errors import ForbiddenError, ServiceError, UnauthorizedError, UnavailableError
from service.db.records.measurements import StoredEvent
from service.usecases.jobs.measurements import EventBatch


def event(seq: int, kind: str = "progress", **data: object) -> StoredEvent:
    """Return one stored event."""
    return StoredEvent(seq=seq, kind=kind, data=data, created_at=datetime.now(UTC))


def batch(*found: StoredEvent, last: bool = False) -> EventBatch:
    """Return what storage gives."""
    return EventBatch(events=found, is_last=last)


async def admitted() -> None:
    """Let everybody go on."""


def streamed(
    first: EventBatch,
    read_after: Callable[[int], EventBatch],
    *,
    readmit: Callable[[], Awaitable[None]] = admitted,
    heartbeat_s: float = 15.0,
) -> list[bytes]:
    """Return every chunk that a client receives."""

    async def collect() -> list[bytes]:
        return [
            chunk
            async for chunk in iter_chunks(first, 0, read_after, readmit, heartbeat_s=heartbeat_s)
        ]

    return asyncio.run(asyncio.wait_for(collect(), timeout=20))


def test_events_have_the_format_of_the_standard() -> None:
    """Id, kind and one line of JSON, closed by an empty line; a newline in a value cannot break out
    of its line.
    """
    assert (
        render([event(7, "status", phase="a\nb")])
        == b'id: 7\nevent: status\ndata: {"phase":"a\\nb"}\n\n'
    )


def test_a_stream_goes_on_after_the_last_event_and_ends_with_the_last_batch() -> None:
    """Each read asks for what followed the newest event that was sent."""
    answers = {1: batch(event(2)), 2: batch(event(3, "status"), last=True)}
    asked: list[int] = []

    def read_after(seq: int) -> EventBatch:
        asked.append(seq)
        return answers[seq]

    sent = streamed(batch(event(1)), read_after)

    assert asked == [1, 2]
    assert [chunk[:5] for chunk in sent[1:]] == [b"id: 1", b"id: 2", b"id: 3"]
    assert sent[0] == b"retry: 2000\n\n"


def test_silence_is_filled_with_comments() -> None:
    """A proxy that closes idle connections sees a line now and then."""
    answers = [batch(), batch(event(1), last=True)]

    sent = streamed(batch(), lambda _seq: answers.pop(0), heartbeat_s=0.0)

    assert [chunk for chunk in sent if chunk.startswith(b":")]


def test_a_database_that_is_away_is_waited_for() -> None:
    """The stream outlives an outage; the client sees a pause and nothing else."""
    answers: list[EventBatch | Exception] = [UnavailableError("away"), batch(event(1), last=True)]

    def read_after(_seq: int) -> EventBatch:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert streamed(batch(), read_after)[-1].startswith(b"id: 1")


@pytest.mark.parametrize("refusal", [UnauthorizedError("revoked"), ForbiddenError("may no longer")])
def test_a_stream_ends_with_its_key(refusal: ServiceError) -> None:
    """Whoever would be let in no longer hears nothing more, though the job goes on."""
    checks: list[Exception | None] = [None, UnavailableError("nobody knows"), refusal]
    numbers = iter(range(2, 9))

    async def readmit() -> None:
        found = checks.pop(0)
        if found is not None:
            raise found

    sent = streamed(batch(event(1)), lambda _seq: batch(event(next(numbers))), readmit=readmit)

    assert [chunk[:5] for chunk in sent[1:]] == [b"id: 1", b"id: 2"]
    assert checks == []

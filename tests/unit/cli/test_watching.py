"""Following a measurement: streams that break, a server that restarts, and one that does not come
back.
"""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from service.base.errors import ServiceError, UnavailableError
from service.cli.http import Document
from service.cli.watching import MAX_OUTAGE_S, RECONNECT_S, follow

PATH = "/v1/measurements/m"
Answer = Callable[[httpx.Request], httpx.Response]


class Seen:
    """Remembers what was shown."""

    def __init__(self) -> None:
        """See nothing yet."""
        self.states: list[str] = []
        self.events: list[tuple[str, Document]] = []
        self.times_away = 0

    def state(self, measurement: Document) -> None:
        """Remember where the measurement was."""
        self.states.append(measurement["status"])

    def event(self, kind: str, data: Document) -> None:
        """Remember an event."""
        self.events.append((kind, data))

    def away(self, reason: str) -> None:
        """Remember that the server was away."""
        assert reason
        self.times_away += 1


class Breaking(httpx.SyncByteStream):
    """A stream that ends in the middle, as one does whose server was killed."""

    def __init__(self, *events: bytes) -> None:
        """Send these, then break."""
        self.events = events

    def __iter__(self) -> Iterator[bytes]:
        """Send and break."""
        yield from self.events
        message = "peer closed connection"
        raise httpx.RemoteProtocolError(message)


def event(number: int, kind: str, **data: object) -> bytes:
    """Return one event as the server sends it."""
    return f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()


def run(answer: Answer) -> tuple[Document, Seen]:
    """Follow to the end by a clock on which only pauses take time."""
    now, seen = [0.0], Seen()

    def pause(seconds: float) -> None:
        now[0] += seconds

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(answer)) as client:
        return follow(client, PATH, seen, clock=lambda: now[0], pause=pause), seen


def test_a_broken_stream_goes_on_after_the_last_event_that_came() -> None:
    """The second stream is asked for what follows, so that nothing is shown twice and nothing is
    missed.
    """
    asked: list[str | None] = []

    def answer(request: httpx.Request) -> httpx.Response:
        if request.url.path == PATH:
            return httpx.Response(
                200, json={"status": "running" if len(asked) < 2 else "succeeded"}
            )
        asked.append(request.headers.get("last-event-id"))
        if len(asked) == 1:
            return httpx.Response(
                200,
                stream=Breaking(
                    event(1, "status", status="running"), event(2, "progress", progress=0.5)
                ),
            )
        return httpx.Response(200, content=event(3, "status", status="succeeded"))

    measurement, seen = run(answer)

    assert measurement == {"status": "succeeded"}
    assert asked == [None, "2"]
    assert [kind for kind, _ in seen.events] == ["status", "progress", "status"]
    assert seen.times_away == 1


def test_a_server_that_restarts_is_waited_for() -> None:
    """Refused connections and a database that is away are told and waited out."""
    answers: Iterator[httpx.Response | Exception] = iter(
        (
            httpx.Response(200, json={"status": "running"}),
            httpx.ConnectError("refused"),
            httpx.ConnectError("refused"),
            httpx.Response(503, json={"detail": "the database does not answer; try again"}),
            httpx.Response(200, json={"status": "failed"}),
        ),
    )

    def answer(_request: httpx.Request) -> httpx.Response:
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    measurement, seen = run(answer)

    assert measurement["status"] == "failed"
    assert seen.times_away == 3


@pytest.mark.parametrize("is_503", [False, True])
def test_a_server_that_does_not_come_back_is_given_up(*, is_503: bool) -> None:
    """After a minute the command says what the matter is; the measurement goes on without it."""
    times = 0

    def answer(_request: httpx.Request) -> httpx.Response:
        nonlocal times
        times += 1
        if times == 1:
            return httpx.Response(200, json={"status": "running"})
        if is_503:
            return httpx.Response(503, json={"detail": "away"})
        message = "refused"
        raise httpx.ConnectError(message)

    with pytest.raises(UnavailableError if is_503 else httpx.ConnectError):
        run(answer)

    assert times == 3 + MAX_OUTAGE_S / RECONNECT_S


def test_a_server_that_was_never_there_is_not_waited_for() -> None:
    """A wrong address is told at once."""

    def answer(_request: httpx.Request) -> httpx.Response:
        message = "refused"
        raise httpx.ConnectError(message)

    with pytest.raises(httpx.ConnectError):
        run(answer)


def test_a_refusal_is_told_in_its_own_words() -> None:
    """A measurement that does not exist is no reason to wait."""
    with pytest.raises(ServiceError, match="there is no measurement"):
        run(lambda _request: httpx.Response(404, json={"detail": "there is no measurement 'm'"}))

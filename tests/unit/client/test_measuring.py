"""A measurement is followed over streams that break, and waited for no longer than was said."""

import gzip
import io
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

import httpx
import pytest

from service.client.errors import NotFoundError, NotOverError, UnknownAnswerError, UnreachableError
from service.client.generated.models import MeasurementAnswer
from service.client.measuring import Clock, Event, Job
from service.client.retrying import Retries
from service.client.transport import Transport
from tests.unit.client.builders import Answer, Script, measurement, problem


@dataclass(slots=True)
class Time:
    """Seconds that pass by themselves with every look, and by pausing."""

    now_s: float = 0.0

    def now(self) -> float:
        """Return the time, a second later each time."""
        self.now_s += 1.0
        return self.now_s

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now_s += seconds


def job(*answers: Answer) -> tuple[Job, Script]:
    """Return a measurement whose server gives these answers."""
    script = Script(iter(answers))
    client = httpx.Client(base_url="http://headroom.test", transport=httpx.MockTransport(script))
    time = Time()
    transport = Transport(client, Retries(attempts=1))
    return Job(
        transport,
        MeasurementAnswer.from_dict(measurement()),
        clock=Clock(now=time.now, pause=time.pause),
    ), script


def stream(*events: tuple[int, str, Mapping[str, object]], broken: bool = False) -> httpx.Response:
    """Return a stream of events that ends, or breaks in the middle of its last one."""

    def parts() -> Iterator[bytes]:
        yield b"retry: 2000\n\n: still here\n\n"
        for number, kind, data in events:
            yield f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode()
        if broken:
            yield b"id: 99\nevent: status"
            message = "peer closed"
            raise httpx.RemoteProtocolError(message)

    return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=parts())


DONE = (3, "status", {"status": "succeeded"})


def test_a_broken_stream_goes_on_where_it_broke() -> None:
    """Every event is heard once; half an event is not."""
    found, script = job(
        stream(
            (1, "status", {"status": "running"}), (2, "progress", {"progress": 0.5}), broken=True
        ),
        httpx.ConnectError("refused"),
        problem(503, "unavailable"),
        stream(DONE),
    )
    events = list(found.events())

    assert [(event.id, event.kind) for event in events] == [
        ("1", "status"),
        ("2", "progress"),
        ("3", "status"),
    ]
    assert events[-1].is_last
    assert [request.headers.get("last-event-id") for request in script.asked] == [
        None,
        "2",
        "2",
        "2",
    ]


def test_a_server_that_ends_the_stream_is_asked_again_until_nothing_follows() -> None:
    """A server that stops closes its streams in the middle; 204 says that it is over."""
    found, script = job(stream((1, "status", {"status": "running"})), httpx.Response(204))

    assert [event.id for event in found.events()] == ["1"]
    assert len(script.asked) == 2


def test_waiting_returns_the_measurement_and_tells_what_happens() -> None:
    """Whoever waits can show progress meanwhile."""
    heard: list[Event] = []
    found, _ = job(
        stream((1, "progress", {"progress": 0.5}), DONE),
        httpx.Response(200, json=measurement("succeeded")),
    )

    assert found.wait(on_event=heard.append).status == "succeeded"
    assert [event.kind for event in heard] == ["progress", "status"]


def test_waiting_ends_in_time() -> None:
    """Heartbeats alone do not keep anybody waiting."""
    found, _ = job(stream(), *(stream() for _ in range(20)))

    with pytest.raises(NotOverError, match="m1 is not over in time"):
        found.wait(5.0)


def test_a_server_that_stays_away_is_given_up() -> None:
    """After a minute without a word, and not before."""
    found, script = job(*(httpx.ConnectError("refused") for _ in range(200)))

    with pytest.raises(UnreachableError, match="for 60 s: refused"):
        list(found.events())
    assert len(script.asked) > 10


def test_a_refusal_is_raised_at_once() -> None:
    """Another try does not make a measurement exist."""
    found, script = job(problem(404, "measurement-not-found"))

    with pytest.raises(NotFoundError):
        found.wait()
    assert len(script.asked) == 1


def test_a_file_is_saved_as_it_was_kept() -> None:
    """What comes is what the measurement lists; anything else is refused, and so is what is not
    there.
    """
    content = b"history"
    listed = {"name": "memory_snapshot", "media_type": "application/octet-stream", "bytes": 7}
    right = {
        **measurement("succeeded"),
        "artifacts": [{**listed, "sha256": sha256(content).hexdigest()}],
    }
    wrong = {**measurement("succeeded"), "artifacts": [{**listed, "sha256": "0" * 64}]}
    file = httpx.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(content))
    found, script = job(
        httpx.Response(200, json=right),
        file,
        httpx.Response(200, json=wrong),
        httpx.Response(200, content=content),
        httpx.Response(200, json=measurement()),
        problem(404, "not-found"),
        httpx.Response(200, json=right),
        httpx.ReadError("gone"),
    )
    saved = io.BytesIO()

    assert (found.save_artifact("memory_snapshot", saved), saved.getvalue()) == (
        len(content),
        content,
    )
    assert script.asked[-1].url.path == "/v1/measurements/m1/artifacts/memory_snapshot"
    with pytest.raises(UnknownAnswerError, match="not what measurement m1 lists"):
        found.save_artifact("memory_snapshot", io.BytesIO())
    with pytest.raises(NotFoundError):
        found.save_artifact("memory_snapshot", io.BytesIO())
    with pytest.raises(UnreachableError, match="broke off"):
        found.save_artifact("memory_snapshot", io.BytesIO())

"""Events of one job through two APIs: the first is killed in the middle, the second goes on where it was."""

import socket
from contextlib import ExitStack

import httpx

from service.jobs.states import Status
from service.usecases import measurements
from tests.system import IN_TIME_S, System


def test_a_stream_goes_on_at_another_api(system: System) -> None:
    """Last-Event-ID means the same to every process: together the two streams are all events, each once, and they end."""
    gate = system.dir / "gate"
    half = {"phase": "half", "fraction": 0.5}
    job_id = system.submit([{"say": half}, {"sample": 7}, {"wait_for": str(gate)}, {"sample": 8}])
    seen: list[int] = []
    with ExitStack() as stack:
        first, second = (stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2))
        killed, _ = system.start_api(first), system.start_api(second)
        system.start_worker()

        seen += follow(first, f"/v1/measurements/{job_id}/events", after=0, stop_at="progress")
        killed.kill()
        killed.wait()
        gate.touch()
        assert system.wait_for_end(job_id).status is Status.SUCCEEDED
        seen += follow(second, f"/v1/measurements/{job_id}/events", after=seen[-1])
        over = ask(second, f"/v1/measurements/{job_id}/events", after=seen[-1])

    told = measurements.events_after(system.sessions, job_id, seq=0).events
    assert seen == [event.seq for event in told] == list(range(1, len(told) + 1))
    assert told[-1].data["status"] == "succeeded"
    assert [event.data["bytes"] for event in told if event.kind == "sample"] == [7, 8]
    assert over.status_code == httpx.codes.NO_CONTENT


def follow(api: socket.socket, path: str, *, after: int, stop_at: str | None = None) -> list[int]:
    """Return the ids of the events that follow ``after``: to the end of the stream, or up to the first of a kind."""
    ids: list[int] = []
    with httpx.stream("GET", url(api, path), headers={"last-event-id": str(after)}, timeout=IN_TIME_S) as stream:
        for line in stream.iter_lines():
            if line.startswith("id: "):
                ids.append(int(line.removeprefix("id: ")))
            if stop_at is not None and line == f"event: {stop_at}":
                break
    return ids


def ask(api: socket.socket, path: str, *, after: int) -> httpx.Response:
    """Return the whole answer."""
    return httpx.get(url(api, path), headers={"last-event-id": str(after)}, timeout=IN_TIME_S)


def url(api: socket.socket, path: str) -> str:
    """Return the address of a path."""
    return f"http://127.0.0.1:{api.getsockname()[1]}{path}"

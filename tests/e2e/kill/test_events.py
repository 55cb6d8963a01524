"""Events of one job through two APIs: the first is killed in the middle, the second goes on where
it was.
"""

import socket
from contextlib import ExitStack
from uuid import UUID

import httpx

from service.usecases.jobs import measurements
from tests.job_builders import TINY_LLAMA
from tests.system import IN_TIME_S, Script, System, has_succeeded_once


def test_kill_9_of_the_api_in_the_middle_of_a_job(system: System) -> None:
    """The job does not notice; at another API the same request is the same job, and its events go
    on where they were.
    """
    gate = system.dir / "gate"
    script: Script = [
        {"say": {"phase": "half", "fraction": 0.5}},
        {"sample": 7},
        {"wait_for": str(gate)},
        {"sample": 8},
    ]
    seen: list[int] = []
    with ExitStack() as stack:
        first, second = (
            stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(2)
        )
        killed, _ = system.start_api(first), system.start_api(second)
        system.start_worker()

        asked = submit(first, script)
        events = f"{asked.headers['location']}/events"
        seen += follow(first, events, after=0, stop_at="progress")
        killed.kill()
        killed.wait()
        again = submit(second, script)
        gate.touch()
        job = system.wait_for_end(UUID(asked.json()["id"]))
        seen += follow(second, events, after=seen[-1])
        over = ask(second, events, after=seen[-1])

    told = measurements.list_events_after(system.sessions, job.id, seq=0).events
    assert asked.status_code == again.status_code == httpx.codes.ACCEPTED
    assert again.json()["id"] == str(job.id)
    assert has_succeeded_once(system, job.id, attempt=1)
    assert seen == [event.seq for event in told] == list(range(1, len(told) + 1))
    assert [event.data["bytes"] for event in told if event.kind == "sample"] == [7, 8]
    assert over.status_code == httpx.codes.NO_CONTENT


def submit(api: socket.socket, script: Script) -> httpx.Response:
    """Ask for the one measurement of this test, however often."""
    body = {
        "model": {"hf_config": {**TINY_LLAMA, "script": script}},
        "workload": {"task": "train", "sequence_length": 8},
        "device": "cpu",
    }
    return httpx.post(
        url(api, "/v1/measurements"),
        json=body,
        headers={"idempotency-key": "one"},
        timeout=IN_TIME_S,
    )


def follow(api: socket.socket, path: str, *, after: int, stop_at: str | None = None) -> list[int]:
    """Return the ids of the events that follow ``after``: to the end of the stream, or up to the
    first of a kind.
    """
    ids: list[int] = []
    with httpx.stream(
        "GET", url(api, path), headers={"last-event-id": str(after)}, timeout=IN_TIME_S
    ) as stream:
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

"""Several replicas and workers are one service: what one is told all know, and whatever is asked
runs once, anywhere.
"""

import os
import signal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx

from service.access.keys import Scope
from service.usecases.access import keys
from tests.e2e.scale.conftest import Fleet, bearer, is_ready, start_replica
from tests.integration.usecases.learning.builders import a_request, a_result, measure
from tests.job_builders import TINY_LLAMA
from tests.processes import has_ended
from tests.system import IN_TIME_S, has_succeeded_once
from tests.waiting import eventually

# What the operator guide promises: a change is known everywhere at the next refresh, which comes
# every second.
SOON_S = 20.0
QUESTION = {"workload": {"task": "train", "sequence_length": 64}, "gpu": "A100-SXM4-80GB"}
RESUMED_WITHIN_S = 25.0
Step = dict[str, object]


def ask(client: httpx.Client, question: dict[str, Any]) -> httpx.Response:
    """Return the answer that a replica keeps: from the second time on that it is asked."""
    return [client.post("/v1/fit", json=question) for _ in range(3)][-1]


def needs(client: httpx.Client, model: object) -> int:
    """Return the bytes that a replica says a model needs."""
    answer = ask(client, {**QUESTION, "model": model}).json()
    return int(answer["per_gpu"]["allocated_bytes"])


def rests_on(client: httpx.Client, question: dict[str, Any], basis: str) -> bool:
    """Tell whether an answer rests on what is named."""
    return bool(client.post("/v1/fit", json=question).json()["basis"] == basis)


def submit(client: httpx.Client, *script: Step, key: str) -> httpx.Response:
    """Ask a replica for a measurement whose probe plays a script; the same key is the same
    measurement.
    """
    body: dict[str, Any] = {
        "model": {"hf_config": {**TINY_LLAMA, "script": list(script)}},
        "workload": {"task": "train", "sequence_length": 8},
        "device": "cpu",
    }
    return client.post("/v1/measurements", json=body, headers={"idempotency-key": key})


def listen(
    client: httpx.Client, path: str, *, after: int = 0, stop_at: str | None = None
) -> list[tuple[int, str]]:
    """Return number and kind of the events after ``after``: to the end of the stream, or up to the
    first of a kind.
    """
    heard: list[tuple[int, str]] = []
    number = after
    with client.stream(
        "GET", f"{path}/events", headers={"last-event-id": str(after)}, timeout=RESUMED_WITHIN_S
    ) as stream:
        for line in stream.iter_lines():
            name, _, value = line.partition(": ")
            if name == "id":
                number = int(value)
            elif name == "event":
                heard.append((number, value))
                if value == stop_at:
                    break
    return heard


def test_both_replicas_take_and_both_workers_run(fleet: Fleet, tmp_path: Path) -> None:
    """Two measurements that were asked for at two replicas run at the same time, each on a worker
    of its own.
    """
    gate = tmp_path / "gate"
    notes = [tmp_path / "first", tmp_path / "second"]
    jobs = [
        UUID(
            submit(client, {"touch": str(note)}, {"wait_for": str(gate)}, key=note.name).json()[
                "id"
            ],
        )
        for client, note in zip(fleet.replicas, notes, strict=True)
    ]
    for note in notes:
        fleet.system.wait_for_pid(note)
    # Neither ends before the gate opens, so what both have begun runs at once.
    busy = [worker["state"] for worker in fleet.replicas[1].get("/v1/workers").json()["items"]]
    gate.touch()
    done = [fleet.system.wait_for_end(job) for job in jobs]

    assert busy == ["busy", "busy"]
    assert len({job.worker for job in done}) == len(jobs)
    assert all(has_succeeded_once(fleet.system, job, attempt=1) for job in jobs)


def test_a_request_that_is_sent_to_both_is_one_measurement(fleet: Fleet) -> None:
    """A client that lost the answer and asks elsewhere gets the measurement that it asked for."""
    first, again = (submit(client, {"sample": 1}, key="sent-twice") for client in fleet.replicas)

    assert first.json()["id"] == again.json()["id"]
    assert has_succeeded_once(
        fleet.system, fleet.system.wait_for_end(UUID(first.json()["id"])).id, attempt=1
    )


def test_events_come_from_the_replica_that_did_not_take_the_request(fleet: Fleet) -> None:
    """All of them, in order, the same as from the other one."""
    first, second = fleet.replicas
    path = submit(
        first, {"say": {"phase": "half", "fraction": 0.5}}, {"sample": 7}, key="elsewhere"
    ).headers["location"]
    elsewhere = listen(second, path)

    assert sorted(kind for _, kind in elsewhere if kind != "status") == ["progress", "sample"]
    assert [number for number, _ in elsewhere] == list(range(1, len(elsewhere) + 1))
    assert listen(first, path) == elsewhere


def test_a_client_whose_replica_is_killed_goes_on_at_another(fleet: Fleet, tmp_path: Path) -> None:
    """Nothing is missed and nothing comes twice: the last number that was heard is all that the
    next replica needs.
    """
    gate = tmp_path / "gate"
    admin = fleet.replicas[0].headers["authorization"].removeprefix("Bearer ")
    pid, doomed = start_replica(fleet.system, admin)
    eventually(lambda: is_ready(doomed), within_s=IN_TIME_S)
    script: tuple[Step, ...] = (
        {"say": {"phase": "half", "fraction": 0.5}},
        {"wait_for": str(gate)},
        {"sample": 8},
    )
    path = submit(doomed, *script, key="orphaned").headers["location"]
    heard = listen(doomed, path, stop_at="progress")
    os.kill(pid, signal.SIGKILL)
    eventually(lambda: has_ended(pid))
    gate.touch()
    rest = listen(fleet.replicas[0], path, after=heard[-1][0])

    assert not is_ready(doomed)
    assert [kind for _, kind in rest if kind != "status"] == ["sample"]
    assert [number for number, _ in heard + rest] == list(range(1, len(heard + rest) + 1))
    assert has_succeeded_once(fleet.system, UUID(path.rpartition("/")[2]), attempt=1)


def test_a_model_that_changes_at_one_replica_changes_at_the_other(fleet: Fleet) -> None:
    """The second replica answers with the revision it knows, then with the new one, without being
    asked to.
    """
    first, second = fleet.replicas
    body: dict[str, Any] = {"name": "shared", "source": {"hf_config": TINY_LLAMA}}
    stored = first.post("/v1/models", json=body)
    before = [needs(client, "shared") for client in fleet.replicas]
    deeper = {"hf_config": {**TINY_LLAMA, "num_hidden_layers": 8}}
    replaced = first.put(
        "/v1/models/shared",
        json={"name": "shared", "source": deeper},
        headers={"if-match": stored.headers["etag"]},
    )
    now = needs(first, "shared")

    assert (stored.status_code, replaced.status_code) == (201, 200)
    assert before[0] == before[1] < now == needs(first, deeper)
    eventually(lambda: needs(second, "shared") == now, within_s=SOON_S)


def test_what_was_measured_corrects_the_answers_of_both(fleet: Fleet) -> None:
    """A measurement that any worker wrote down is what every replica's next answers rest on, with
    the same numbers.
    """
    asked = {**QUESTION, "model": {"hf_config": TINY_LLAMA}}
    before = [ask(client, asked).json() for client in fleet.replicas]
    request = a_request()
    measure(fleet.sessions, request, a_result(request, off_by=0.1))

    assert [answer["basis"] for answer in before] == ["analytic", "analytic"]
    for client in fleet.replicas:
        eventually(partial(rests_on, client, asked, "measured"), within_s=SOON_S)
    answers = [ask(client, asked) for client in fleet.replicas]
    after = [answer.json() for answer in answers]
    assert answers[0].headers["etag"] == answers[1].headers["etag"]
    assert after[0] == after[1]
    assert after[0]["per_gpu"]["allocated_bytes"] > before[0]["per_gpu"]["allocated_bytes"]


def test_a_key_that_is_revoked_at_one_replica_opens_neither(fleet: Fleet) -> None:
    """At once where it was revoked, at the next refresh everywhere else."""
    first, second = fleet.replicas
    key = fleet.make_key(Scope.READ)
    (stored,) = [
        one for one, _ in keys.read_live_keys(fleet.sessions).values() if one.name == "one"
    ]
    revoked = first.delete(f"/v1/keys/{stored.id}")

    assert revoked.json()["state"] == "revoked"
    assert first.get("/v1/gpus?limit=1", headers=bearer(key)).status_code == 401
    eventually(
        lambda: second.get("/v1/gpus?limit=1", headers=bearer(key)).status_code == 401,
        within_s=SOON_S,
    )


def test_a_rate_is_counted_over_both(fleet: Fleet) -> None:
    """A key that asks in turns gets as many answers as it may have, not as many from each."""
    key = fleet.make_key(Scope.READ, rate="6/hour")
    turns = [*fleet.replicas] * 4
    statuses = [client.get("/v1/gpus?limit=1", headers=bearer(key)).status_code for client in turns]

    assert statuses == [200] * 6 + [429] * 2

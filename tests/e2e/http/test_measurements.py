"""Measurements over HTTP, with a real worker behind them."""

from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

from service.db.session import make_engine, make_sessions
from service.usecases.jobs import workers
from service.usecases.jobs.workers import WorkerInfo
from tests.e2e.http.conftest import Servers
from tests.e2e.http.test_resources import TINY, slug
from tests.waiting import eventually


def measurement(*script: dict[str, object]) -> dict[str, Any]:
    """Return a request whose probe plays a script."""
    return {
        "model": {"hf_config": {**TINY, "script": list(script)}},
        "workload": {"task": "train", "sequence_length": 16},
        "device": "cpu",
        "gpu": "T4",
    }


def events(client: httpx.Client, path: str, *, after: int | None = None) -> list[dict[str, str]]:
    """Return the events of a measurement until its stream ends."""
    headers = {} if after is None else {"last-event-id": str(after)}
    with client.stream("GET", f"{path}/events", headers=headers) as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        text = stream.read().decode()
    blocks = [block for block in text.split("\n\n") if block.startswith("id: ")]
    return [dict(line.partition(": ")[::2] for line in block.splitlines()) for block in blocks]


@pytest.mark.usefixtures("worker")
def test_a_measurement_runs_to_its_end(client: httpx.Client) -> None:
    """Queued, running, progress in words, succeeded: each is an event, and the result is there."""
    created = client.post(
        "/v1/measurements", json=measurement({"say": {"phase": "layers 1 of 2", "fraction": 0.5}})
    )
    path = created.headers["location"]
    followed = events(client, path)
    found = client.get(path).json()

    assert created.status_code == 202
    assert created.json()["status"] == "queued"
    statuses = [event["data"] for event in followed if event["event"] == "status"]
    assert '"running"' in "".join(statuses)
    assert '"succeeded"' in statuses[-1]
    assert any(
        "layers 1 of 2" in event["data"] for event in followed if event["event"] == "progress"
    )
    assert [int(event["id"]) for event in followed] == sorted(
        {int(event["id"]) for event in followed}
    )
    assert (found["status"], found["progress"], found["gpu"]) == ("succeeded", 1.0, "T4")
    assert found["peaks"]["allocated_bytes"] > 0


@pytest.mark.usefixtures("worker")
def test_events_are_replayed_from_any_id(client: httpx.Client) -> None:
    """Whoever lost the stream goes on where he was; past the end there is nothing, and nothing that
    was never sent.
    """
    path = client.post("/v1/measurements", json=measurement({"sample": 1}, {"sample": 2})).headers[
        "location"
    ]
    everything = events(client, path)

    assert events(client, path, after=int(everything[0]["id"])) == everything[1:]
    last = int(everything[-1]["id"])
    assert client.get(f"{path}/events", headers={"last-event-id": str(last)}).status_code == 204
    beyond = client.get(f"{path}/events", headers={"last-event-id": str(last + 1)})
    assert slug(beyond, 422) == "invalid-request"
    assert beyond.json()["errors"][0]["field"] == "Last-Event-ID"


@pytest.mark.usefixtures("worker")
def test_samples_are_listed(client: httpx.Client) -> None:
    """What the probe read on its way is kept in order, and comes in pages."""
    asked = measurement({"sample": 10}, {"sample": 30}, {"sample": 20})
    path = client.post("/v1/measurements", json=asked).headers["location"]
    events(client, path)
    whole = client.get(f"{path}/samples").json()
    first = client.get(f"{path}/samples", params={"limit": 2}).json()
    second = client.get(
        f"{path}/samples", params={"limit": 2, "cursor": first["next_cursor"]}
    ).json()

    assert [item["bytes"] for item in whole["items"]] == [10, 30, 20]
    assert first["items"] + second["items"] == whole["items"]
    assert (len(first["items"]), second["next_cursor"], whole["next_cursor"]) == (2, None, None)


@pytest.mark.usefixtures("worker")
def test_a_running_measurement_is_cancelled(client: httpx.Client, tmp_path: Path) -> None:
    """DELETE reaches the probe within a heartbeat, and a second DELETE changes nothing."""
    script = measurement({"touch": str(tmp_path / "runs")}, {"wait_for": str(tmp_path / "never")})
    path = client.post("/v1/measurements", json=script).headers["location"]
    eventually((tmp_path / "runs").exists, within_s=40)

    assert client.delete(path).json()["cancel_requested"] is True

    eventually(lambda: client.get(path).json()["status"] == "cancelled", within_s=40)
    assert client.delete(path).status_code == 200


def test_a_queued_measurement_is_cancelled_at_once(client: httpx.Client) -> None:
    """Without a worker the job waits, and DELETE ends it."""
    path = client.post("/v1/measurements", json=measurement()).headers["location"]

    assert client.delete(path).json()["status"] == "cancelled"
    assert '"cancelled"' in events(client, path)[-1]["data"]


@pytest.mark.usefixtures("worker")
def test_a_finished_measurement_cannot_be_cancelled(client: httpx.Client) -> None:
    """What is over stays as it ended."""
    path = client.post("/v1/measurements", json=measurement()).headers["location"]
    events(client, path)

    assert slug(client.delete(path), 409) == "not-cancellable"


@pytest.mark.usefixtures("worker")
def test_a_failed_measurement_says_why(client: httpx.Client) -> None:
    """A probe that refuses leaves a problem document."""
    path = client.post("/v1/measurements", json=measurement({"fail": "no such kernel"})).headers[
        "location"
    ]
    events(client, path)
    found = client.get(path).json()

    assert found["status"] == "failed"
    assert "no such kernel" in found["problem"]["detail"]


def test_the_same_key_and_body_give_the_same_job(client: httpx.Client) -> None:
    """A repeated request makes no second job; the same key with another body is a conflict."""
    key = {"idempotency-key": str(uuid4())}
    first = client.post("/v1/measurements", json=measurement(), headers=key)
    again = client.post("/v1/measurements", json=measurement(), headers=key)
    other = client.post("/v1/measurements", json=measurement({"sample": 1}), headers=key)

    assert first.json()["id"] == again.json()["id"]
    assert slug(other, 409) == "idempotency-conflict"
    assert len(client.get("/v1/measurements").json()["items"]) == 1


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"device": "gpu"}, "device"),
        ({"layout": {"pipeline_parallel": 2}}, "layout.pipeline_parallel"),
        ({"model": {"num_parameters": 1_000_000_000}}, "model"),
        (
            {"workload": {"task": "train", "sequence_length": 16, "loss": "chunked"}},
            "workload.loss",
        ),
        ({"gpu": "A100"}, "gpu"),
        ({"workload": {"task": "train", "sequence_length": 0}}, "workload.sequence_length"),
        ({"full_dept": True}, "full_dept"),
    ],
)
def test_a_broken_request_makes_no_job(
    client: httpx.Client, change: dict[str, Any], field: str
) -> None:
    """What is refused is refused before it is stored."""
    answer = client.post("/v1/measurements", json=measurement() | change)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert client.get("/v1/measurements").json()["items"] == []


def test_measurements_are_filtered(client: httpx.Client) -> None:
    """Status, device, GPU, model and date choose; an unknown filter is refused with the nearest
    name.
    """
    client.post("/v1/measurements", json=measurement())

    def count(**query: str) -> int:
        return len(client.get("/v1/measurements", params=query).json()["items"])

    assert count(status="queued", device="cpu", gpu="T4") == 1
    assert count(status="succeeded") == count(gpu="L4") == count(model="tiny") == 0
    assert count(created_after="2020-01-01T00:00:00Z") == 1
    assert count(created_before="2020-01-01T00:00:00Z") == 0
    assert (
        client.get("/v1/measurements", params={"stauts": "queued"}).json()["errors"][0]["nearest"]
        == "status"
    )


def test_unknown_measurements_are_not_found(client: httpx.Client) -> None:
    """Every path below an id that nobody has is 404."""
    for path in (f"/v1/measurements/{uuid4()}", "/v1/measurements/1"):
        for below in ("", "/events", "/samples"):
            assert slug(client.get(path + below), 404) == "measurement-not-found"


@pytest.mark.usefixtures("worker")
def test_workers_are_listed(client: httpx.Client) -> None:
    """A worker shows its devices, versions and state."""
    eventually(lambda: client.get("/v1/workers").json()["items"], within_s=40)
    (worker,) = client.get("/v1/workers").json()["items"]

    assert worker["state"] in {"idle", "busy"}
    assert worker["pid"] > 0
    assert "last_heartbeat" in worker


def test_workers_come_in_pages(client: httpx.Client, servers: Servers) -> None:
    """The latest start first, and each once."""
    engine = make_engine(servers.database_url, application_name="test", pool_size=1)
    for name in ("one", "two", "three"):
        workers.register(
            make_sessions(engine), WorkerInfo(name=name, host="h", pid=1, devices=[], versions={})
        )
    engine.dispose()
    first = client.get("/v1/workers", params={"limit": 2}).json()
    second = client.get("/v1/workers", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    assert [worker["name"] for worker in first["items"] + second["items"]] == [
        "three",
        "two",
        "one",
    ]
    assert second["next_cursor"] is None

"""The whole loop with real processes: ask over HTTP, a worker runs a real model, the next answer
rests on it.
"""

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.embedded.redis import run_redis
from tests.job_builders import TINY_LLAMA
from tests.system import System, build_environment

IN_TIME_S = 120.0
QUESTION = {
    "model": {"hf_config": TINY_LLAMA},
    "workload": {"task": "train", "sequence_length": 64, "precision": "bf16_mixed"},
}
GPU = "A100-SXM4-80GB"


@pytest.fixture
def url(sessions: sessionmaker[Session], database_url: str, tmp_path: Path) -> Iterator[str]:
    """Return the address of a running API with a reconcile loop and a worker that runs real
    probes.
    """
    with ExitStack() as stack:
        redis_url = stack.enter_context(run_redis(tmp_path / "redis"))
        environment = {**build_environment(database_url), "REDIS_URL": redis_url}
        system = System(sessions=sessions, environment=environment, dir=tmp_path, stack=stack)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        system.start_api(listener)
        system.start_reconcile()
        system.start_real_worker()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def follow(client: httpx.Client, job: str) -> list[tuple[str, dict[str, Any]]]:
    """Return every event of a measurement until it is over."""
    events: list[tuple[str, dict[str, Any]]] = []
    kind = ""
    with client.stream("GET", f"/v1/measurements/{job}/events") as response:
        for line in response.iter_lines():
            name, _, value = line.partition(": ")
            if name == "event":
                kind = value
            elif name == "data":
                events.append((kind, json.loads(value)))
    return events


def test_a_measurement_changes_what_the_next_answer_rests_on(url: str) -> None:
    """Queued, running with progress, succeeded; predicted within 1 %; then fit names the
    calibration and its measurement.
    """
    with httpx.Client(base_url=url, timeout=IN_TIME_S) as client:
        before = client.post("/v1/fit", json={**QUESTION, "gpu": GPU}).json()
        asked = client.post("/v1/measurements", json={**QUESTION, "device": "cpu", "gpu": GPU})
        events = follow(client, asked.json()["id"])
        found = client.get(asked.headers["location"]).json()
        after = client.post("/v1/fit", json={**QUESTION, "gpu": GPU}).json()
        known = client.get("/v1/calibrations").json()["items"]
        (errors,) = client.get("/v1/accuracy").json()["classes"]
        again = client.post(f"/v1/calibrations/{known[0]['id']}/remeasure")
        (worker,) = client.get("/v1/workers").json()["items"]

    assert asked.status_code == 202
    assert asked.json()["status"] == "queued"
    statuses = [data["status"] for kind, data in events if kind == "status"]
    assert statuses == ["queued", "running", "succeeded"]
    done = [
        data["done"] for kind, data in events if kind == "progress"
    ]  # lines within one moment are told as their last
    assert (done, done[-1]) == (sorted(done), 4)
    assert found["progress"] == 1.0
    assert found["peaks"]["allocated_bytes"] > 0
    assert abs(found["prediction"]["error"]) <= 0.01
    assert before["basis"] == "analytic"
    assert after["basis"] == "measured"
    assert found["calibration"] == known[0]["id"]
    assert known[0]["evidence"] == [found["id"]]
    assert json.dumps(after["calibration"]).count(known[0]["id"]) == 1
    assert (after["calibration_level"], after["calibration_measurements"]) == ("point", 1)
    assert (known[0]["drift"]["stale"], known[0]["drift"]["drifting"]) == (False, False)
    assert (errors["quantity"], errors["count"]) == ("allocated", 1)
    assert errors["before"]["median"] <= 0.01
    assert (again.status_code, len(again.json()["measurements"])) == (202, 1)
    assert worker["versions"]["torch"] == found["environment"]["torch"]

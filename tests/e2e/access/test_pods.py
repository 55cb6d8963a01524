"""The collector of Kubernetes' nodes: what a pod used moves the next answer."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope
from service.cli.nodes.collector import Collector
from tests.e2e.access.conftest import ask, make_key, until_known
from tests.unit.cli.nodes.exporter import HOST, write_line, write_page
from tests.waiting import eventually

QUESTION = {
    "model": "qwen3-0.6b",
    "gpu": "A100-SXM4-80GB",
    "workload": {"task": "train", "sequence_length": 640},
}


def review(name: str) -> dict[str, Any]:
    """Return what the API server shows the webhook of a Job."""
    container = {"name": "tune", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "operation": "CREATE",
            "object": {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {
                    "name": name,
                    "namespace": "ml",
                    "annotations": {"headroom.dev/question": json.dumps(QUESTION)},
                },
                "spec": {"template": {"spec": {"containers": [container]}}},
            },
        },
    }


def test_what_a_pod_used_moves_the_next_answer(
    address: str, sessions: sessionmaker[Session], tmp_path: Path
) -> None:
    """Once an operator has approved it, across a restart of the collector and an outage."""
    admin = make_key(sessions, Scope.ADMIN)
    until_known(address, admin)
    made = ask(address, "POST", "/v1/keys", admin, json={"name": "nodes", "scopes": ["field"]})
    key = made.json()["key"]
    before = ask(address, "POST", "/v1/fit", admin, json=QUESTION).json()
    ask(address, "POST", "/v1/hooks/kubernetes", admin, json=review("tune"))
    eventually(lambda: ask(address, "GET", "/v1/hooks/decisions", admin).json()["items"])
    [least, most] = before["per_gpu"]["intervals"]["device"]
    mib = (most + (most - least) // 4) // 2**20
    started = datetime.now(UTC) + timedelta(seconds=5)

    def step(server: str, page: str, minutes: int) -> None:
        """Look once, as a collector that was just started."""
        transport = httpx.MockTransport(lambda _request: httpx.Response(200, text=page))
        with (
            httpx.Client(base_url=server, headers={"authorization": f"Bearer {key}"}) as client,
            httpx.Client(transport=transport) as pages,
        ):
            Collector(
                client=client,
                pages=pages,
                exporter="http://exporter/metrics",
                node=HOST,
                state=tmp_path / "pods.json",
                patience=timedelta(minutes=1),
                releases={"torch": "2.13.0", "transformers": "5.23.0"},
            ).step(started + timedelta(minutes=minutes))

    for minute, used in enumerate((0, mib, mib - 9)):
        step(address, write_page(write_line(used, "ml/tune-x7x2k")), minute)
    step("http://127.0.0.1:1", write_page(write_line(4)), 3)
    unsent = ask(address, "GET", "/v1/field-data", admin).json()["items"]
    step(address, write_page(write_line(4)), 4)
    step(address, write_page(write_line(4)), 5)

    assert unsent == []
    [source] = ask(address, "GET", "/v1/field-data", admin).json()["items"]
    assert (source["source"], source["num_pending"]) == ("nodes", 1)
    ask(address, "POST", "/v1/field-data/approve", admin, json={"source": "nodes"})
    after = ask(address, "POST", "/v1/fit", admin, json=QUESTION).json()
    assert (before["basis"], after["basis"]) == ("analytic", "calibrated")
    assert after["per_gpu"]["device_bytes"] == mib * 2**20

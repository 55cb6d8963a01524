"""One request from its client to the probe's phases and back: one trace, one request id, in every
process.
"""

from itertools import pairwise
from typing import Any

import httpx
import pytest

from tests.e2e.observability.conftest import PASSWORD, Seen, Service
from tests.job_builders import TINY_LLAMA
from tests.waiting import eventually

IN_TIME_S = 120.0
TRACE, CLIENT_SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
REQUEST = "client-request-7"
QUESTION = {
    "model": {"hf_config": TINY_LLAMA},
    "workload": {"task": "train", "sequence_length": 64, "precision": "bf16_mixed"},
    "device": "trace",
    "gpu": "A100-SXM4-80GB",
}


@pytest.fixture(scope="module")
def job(service: Service) -> str:
    """Ask for a measurement as a traced client, wait until it is over and its spans have come, and
    return its id.
    """
    headers = {"authorization": f"Bearer {service.key}"}
    sent = {"traceparent": f"00-{TRACE}-{CLIENT_SPAN}-01", "x-request-id": REQUEST}
    with httpx.Client(base_url=service.url, headers=headers, timeout=IN_TIME_S) as client:
        eventually(lambda: client.get("/v1/workers").json().get("items"), within_s=IN_TIME_S)
        asked = client.post("/v1/measurements", json=QUESTION, headers=sent)
        assert asked.status_code == 202, asked.text
        where = asked.headers["location"]
        eventually(lambda: client.get(where).json()["status"] == "succeeded", within_s=IN_TIME_S)
    eventually(
        lambda: "measurement.attempt" in {one.name for one in service.collector.spans},
        within_s=IN_TIME_S,
    )
    eventually(
        lambda: "POST /v1/measurements" in {one.name for one in service.collector.spans},
        within_s=IN_TIME_S,
    )
    return str(asked.json()["id"])


def of_the_trace(service: Service) -> list[Seen]:
    """Return the spans beneath the client's."""
    return [one for one in service.collector.spans if one.trace_id == TRACE]


def test_a_measurement_is_one_trace(service: Service, job: str) -> None:
    """From the client's span to the probe's: each span stands beneath the one that caused it, in
    three services.
    """
    find = service.collector.named
    request, submitted = find("POST /v1/measurements"), find("measurement.submit")
    attempt, claimed, finished = (
        find("measurement.attempt"),
        find("measurement.claim"),
        find("measurement.finish"),
    )
    started, probed = find("probe"), find("measurement.probe")

    assert request.parent_id == CLIENT_SPAN
    assert [submitted.parent_id, attempt.parent_id] == [request.span_id, submitted.span_id]
    assert claimed.parent_id == started.parent_id == finished.parent_id == attempt.span_id
    assert probed.parent_id == started.span_id
    assert {
        one.trace_id for one in (request, submitted, attempt, claimed, finished, started, probed)
    } == {TRACE}
    assert {one.service for one in of_the_trace(service)} == {
        "headroom-api",
        "headroom-worker",
        "headroom-probe",
    }
    assert attempt.attributes["job_id"] == job
    assert request.attributes["headroom.request_id"] == REQUEST
    assert request.attributes["http.response.status_code"] == 202


def test_phases_lie_within_the_probe(service: Service, job: str) -> None:
    """What the probe did one after the other is told one after the other, beneath it."""
    assert job
    probed = service.collector.named("measurement.probe")
    phases = sorted(
        (one for one in of_the_trace(service) if one.parent_id == probed.span_id),
        key=lambda one: one.began_ns,
    )

    assert len(phases) >= 2
    assert all(before.ended_ns <= after.began_ns for before, after in pairwise(phases))
    assert probed.began_ns <= phases[0].began_ns
    assert phases[-1].ended_ns <= probed.ended_ns


def test_machines_that_look_every_second_are_not_traced(service: Service, job: str) -> None:
    """Health and metrics make no spans, and another request makes a trace of its own."""
    assert job
    for path in ("/healthz", "/metrics"):
        httpx.get(
            service.url + path, headers={"authorization": f"Bearer {service.key}"}, timeout=30
        )
    httpx.get(
        service.url + "/v1/gpus?limit=1",
        headers={"authorization": f"Bearer {service.key}"},
        timeout=30,
    )
    eventually(
        lambda: "GET /v1/gpus" in {one.name for one in service.collector.spans}, within_s=IN_TIME_S
    )

    assert service.collector.named("GET /v1/gpus").trace_id != TRACE
    assert {one.name for one in service.collector.spans} & {"GET /healthz", "GET /metrics"} == set()


def test_every_line_of_an_attempt_has_its_ids(service: Service, job: str) -> None:
    """API, worker and probe name the request, its trace and, where there is one, the job."""
    ours = ("attempt.", "probe.")
    api = [line for line in service.lines("api") if line.get("request_id") == REQUEST]
    worker = [line for line in service.lines("worker") if line["event"].startswith(ours)]

    assert [
        (line["event"], line["path"], line["trace_id"])
        for line in api
        if line["event"] == "request.answered"
    ] == [("request.answered", "/v1/measurements", TRACE)]
    assert [line["job_id"] for line in api if line["event"] == "measurement.submitted"] == [job]
    assert {"attempt.began", "probe.began", "attempt.ended"} <= {line["event"] for line in worker}
    assert {line["logger"] for line in worker} >= {"worker.tasks", "worker.probes"}
    assert all(ids_of(line) == (REQUEST, TRACE, job, 1) for line in worker), worker


def test_no_log_holds_a_secret(service: Service, job: str) -> None:
    """Neither the key that was sent nor the database's password is in what any process wrote, at
    the finest level.
    """
    assert job
    written = service.all_text()

    assert len(written) > 1000
    assert service.key not in written
    assert service.key.split("_", 2)[2] not in written
    assert PASSWORD not in written


def ids_of(line: dict[str, Any]) -> tuple[object, object, object, object]:
    """Return the ids that a line has."""
    return line.get("request_id"), line.get("trace_id"), line.get("job_id"), line.get("attempt")

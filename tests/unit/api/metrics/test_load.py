"""How the queue does and who works, as Prometheus reads it."""

from datetime import UTC, datetime
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from service.api.metrics.registry import BuildInfo, Metrics
from service.api.metrics.workers import MAX_SERIES
from service.db.records.stored import JobCount, QueueCount
from service.usecases.jobs.workers import WorkerState, WorkerSummary
from service.usecases.operations.load import Load
from service.usecases.operations.metrics_snapshot import NO_READING, MetricsReading, MetricsSnapshot

NOW = datetime(2026, 1, 1, tzinfo=UTC)
GPU = {
    "device": "cuda",
    "sku": "H200",
    "name": "NVIDIA H200",
    "uuid": "GPU-1",
    "driver": "580.1",
    "memory_bytes": 7,
}


def samples(reading: MetricsReading) -> dict[str, float]:
    """Return every sample as ``name{label=value,…}`` with its value."""
    text = Metrics(build=BuildInfo(version="1.2", schema="r9")).render(reading).decode()
    return {
        f"{one.name}{{{','.join(f'{key}={value}' for key, value in sorted(one.labels.items()))}}}": one.value  # noqa: E501
        for family in text_string_to_metric_families(text)
        for one in family.samples
    }


def a_worker(**changes: object) -> WorkerSummary:
    """Build a GPU worker that was heard of a moment ago."""
    right: dict[str, Any] = {
        "name": "w1",
        "host": "h",
        "pid": 1,
        "devices": [GPU],
        "versions": {"torch": "2.13.0", "gpu-headroom": "1.2"},
        "state": WorkerState.IDLE,
        "current_job_id": None,
        "last_heartbeat": NOW,
        "started_at": NOW,
        "heartbeat_age_s": 3.0,
        "observed": {"used_bytes": 5, "foreign_processes": 2},
    }
    return WorkerSummary(**(right | changes))


def told(*, load: Load | None = None, workers: tuple[WorkerSummary, ...] = ()) -> dict[str, float]:
    """Return the samples of a snapshot."""
    return samples(
        MetricsReading(
            snapshot=MetricsSnapshot(load=load or Load(), workers=workers),
            redis_up=True,
            seconds=0.25,
        ),
    )


def test_jobs_attempts_and_failures_are_told_by_device() -> None:
    """What was probed is counted by device and state, what was imported apart, and what failed by
    its problem.
    """
    jobs = (
        JobCount(device="cpu", source="probe", state="queued", jobs=2, attempts=1, lost_leases=1),
        JobCount(
            device="cpu",
            source="probe",
            state="failed",
            reason="probe-error",
            jobs=3,
            attempts=5,
            retries=2,
        ),
        JobCount(device="cuda", source="import", state="succeeded", jobs=4),
    )

    found = told(load=Load(jobs=jobs, expired_leases=1))

    assert found["headroom_jobs{device=cpu,state=queued}"] == 2
    assert found["headroom_jobs{device=cuda,state=succeeded}"] == 0
    assert found["headroom_imported_measurements{}"] == 4
    assert found["headroom_attempts_total{device=cpu}"] == 6
    assert found["headroom_retries_total{device=cpu}"] == 2
    assert found["headroom_leases_lost_total{device=cpu}"] == 1
    assert found["headroom_failed_jobs_total{device=cpu,reason=probe-error}"] == 3
    assert found["headroom_expired_leases{}"] == 1


def test_queues_are_told_by_device_and_priority() -> None:
    """The first in each queue with its age; an empty queue is zero jobs that wait for zero
    seconds.
    """
    found = told(load=Load(queue=(QueueCount(device="cuda", weight=1, jobs=2, oldest_s=12.5),)))

    assert found["headroom_queue_jobs{device=cuda,priority=high}"] == 2
    assert found["headroom_queue_oldest_seconds{device=cuda,priority=high}"] == 12.5
    assert found["headroom_queue_jobs{device=trace,priority=low}"] == 0
    assert found["headroom_queue_oldest_seconds{device=trace,priority=low}"] == 0


def test_each_worker_tells_of_its_gpu() -> None:
    """Its memory, driver, who else is on it, and when it was heard of; a busy one is busy."""
    found = told(workers=(a_worker(), a_worker(name="w2", state=WorkerState.BUSY, observed=None)))

    who = "device=cuda,host=h,worker=w1"
    assert (
        found["headroom_workers{device=cuda,state=idle}"]
        == found["headroom_workers{device=cuda,state=busy}"]
        == 1
    )
    assert found[
        "headroom_worker_info{device=cuda,driver=580.1,gpu=H200,host=h,torch=2.13.0,uuid=GPU-1,version=1.2,worker=w1}"
    ]
    assert found[f"headroom_worker_heartbeat_age_seconds{{{who}}}"] == 3
    assert found[f"headroom_worker_memory_bytes{{{who}}}"] == 7
    assert found[f"headroom_worker_gpu_used_bytes{{{who}}}"] == 5
    assert found[f"headroom_worker_foreign_processes{{{who}}}"] == 2
    assert found["headroom_worker_busy{device=cuda,host=h,worker=w2}"] == 1
    assert "headroom_worker_foreign_processes{device=cuda,host=h,worker=w2}" not in found


def test_series_stay_few_however_many_workers_came_and_went() -> None:
    """Those that stopped or were not heard of for an hour are counted, and have no series of their
    own.
    """
    old = tuple(
        a_worker(name=f"old{number}", state=WorkerState.GONE, heartbeat_age_s=4000.0)
        for number in range(3)
    )
    stopped = (a_worker(name="stopped", state=WorkerState.STOPPED),)
    many = tuple(a_worker(name=f"w{number}") for number in range(MAX_SERIES + 1))

    found = told(workers=(*many, *stopped, *old))

    assert found["headroom_workers{device=cuda,state=gone}"] == 3
    assert found["headroom_workers{device=cuda,state=stopped}"] == 1
    assert len([name for name in found if name.startswith("headroom_worker_info{")]) == MAX_SERIES


def test_without_a_database_only_this_server_is_told() -> None:
    """What nobody could count is absent, not zero."""
    found = samples(MetricsReading(snapshot=None, redis_up=False))

    assert found["headroom_database_up{}"] == found["headroom_redis_up{}"] == 0
    assert [
        name
        for name in found
        if name.startswith(("headroom_jobs", "headroom_leases", "headroom_queue"))
    ] == []
    assert "headroom_redis_up{}" not in samples(NO_READING)
    assert any("schema=r9,version=1.2" in name for name in found)


def test_what_this_server_counts_is_told() -> None:
    """Refusals by their reason, searches with their layouts, rings that nobody heard."""
    counted = Metrics()
    for status in (200, 401, 403, 429, 429):
        counted.observe("GET", "/v1/gpus", status, 0.001)
    counted.count_search("plan", layouts=100, estimated=7)
    counted.count_failed_notification()

    lines = counted.render(NO_READING).decode().splitlines()

    assert 'headroom_refused_requests_total{reason="throttled"} 2.0' in lines
    assert 'headroom_refused_requests_total{reason="unauthenticated"} 1.0' in lines
    assert 'headroom_searched_layouts_total{question="plan"} 100.0' in lines
    assert 'headroom_estimated_layouts_total{question="plan"} 7.0' in lines
    assert "headroom_doorbell_failures_total 1.0" in lines

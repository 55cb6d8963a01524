"""How the queue does, as Prometheus reads it."""

from service.api.metrics import Census, Metrics
from service.usecases.load import Load


def rendered(census: Census | None) -> list[str]:
    """Return the lines of /metrics."""
    return Metrics(take_census=lambda: census, doorbell_failures=lambda: 3).render().decode().splitlines()


def test_queues_leases_and_workers_are_told() -> None:
    """The first in each queue with its age, leases that were lost, rings that failed, jobs and workers by state."""
    load = Load(oldest_s={"cpu": 12.5}, lost_leases=2)

    lines = rendered(Census(jobs={"queued": 1, "running": 0}, workers={"idle": 1, "gone": 4}, load=load))

    assert 'headroom_queue_oldest_seconds{device="cpu"} 12.5' in lines
    assert "headroom_leases_lost_total 2.0" in lines
    assert "headroom_doorbell_failures_total 3.0" in lines
    assert 'headroom_jobs{state="queued"} 1.0' in lines
    assert 'headroom_workers{state="gone"} 4.0' in lines


def test_without_a_database_only_this_process_is_told() -> None:
    """What nobody could count is absent, not zero."""
    lines = rendered(None)

    assert "headroom_doorbell_failures_total 3.0" in lines
    assert not [line for line in lines if line.startswith(("headroom_leases_lost_total", "headroom_queue_oldest_seconds{"))]

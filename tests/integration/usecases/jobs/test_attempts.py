"""Heartbeats and ends of attempts against a real database: a fence that holds."""

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session

from service.base.errors import UnavailableError
from service.jobs.contract import ProbeDevice, Progress
from service.jobs.states import Lease, Status
from service.usecases.jobs import attempts, measurements, outcomes
from tests.integration.usecases.jobs.builders import (
    LEASE_S,
    Sessions,
    claimed,
    end_lease,
    requeue,
    submitted,
)
from tests.job_builders import a_result
from worker.retry import retry_while_unavailable


def count_results(sessions: Sessions) -> int:
    """Return how many results are stored."""
    with sessions() as session:
        return int(session.execute(text("SELECT count(*) FROM measurement_results")).scalar_one())


def test_a_heartbeat_keeps_the_lease(sessions: Sessions) -> None:
    """What was about to run out is the worker's again."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    end_lease(sessions, job_id)

    lease = attempts.renew_lease(sessions, attempt, lease_s=LEASE_S)
    requeue(sessions)

    assert lease is Lease.HELD
    assert measurements.read(sessions, job_id).status is Status.RUNNING


def test_a_heartbeat_brings_the_cancellation(sessions: Sessions) -> None:
    """Cancelling a running job is a flag that its worker reads."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)

    cancelled = measurements.cancel(sessions, job_id)

    assert cancelled.status is Status.RUNNING
    assert attempts.renew_lease(sessions, attempt, lease_s=LEASE_S) is Lease.CANCELLED


def test_a_zombie_is_fenced(sessions: Sessions) -> None:
    """An attempt that slept past its lease and wakes after its successor began can write nothing at
    all.
    """
    job_id = submitted(sessions)
    zombie = claimed(sessions, job_id, worker="zombie")
    end_lease(sessions, job_id)
    requeue(sessions)
    successor = claimed(sessions, job_id, expected=1, worker="successor")

    assert attempts.renew_lease(sessions, zombie, lease_s=LEASE_S) is Lease.LOST
    line = Progress(phase="zombie", done=1, total=1, fraction=0.9)
    assert not attempts.report(sessions, zombie, progress=line, samples=[], samples_before=0)
    assert not outcomes.succeed(sessions, zombie, a_result(allocated_bytes=666))
    assert attempts.release(sessions, job_id, attempt=zombie.number, reason="x") is None
    assert count_results(sessions) == 0

    assert outcomes.succeed(sessions, successor, a_result(allocated_bytes=1000))
    assert not outcomes.succeed(sessions, zombie, a_result(allocated_bytes=666))
    job = measurements.read(sessions, job_id)
    assert job.phase == "done"
    assert job.result is not None
    assert job.result.attempt == 2
    assert job.result.peaks["allocated_bytes"] == 1000


def test_a_late_result_is_taken_while_nobody_has_begun_again(sessions: Sessions) -> None:
    """The lease ran out and the job is queued again, but the work is done: it counts."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    end_lease(sessions, job_id)
    requeue(sessions)
    assert measurements.read(sessions, job_id).status is Status.QUEUED

    assert attempts.renew_lease(sessions, attempt, lease_s=LEASE_S) is Lease.HELD
    assert outcomes.succeed(sessions, attempt, a_result())

    assert measurements.read(sessions, job_id).status is Status.SUCCEEDED
    assert attempts.find_queued(sessions, device=ProbeDevice.CPU) is None


def lose_acknowledgement(_session: Session) -> None:
    """Break the connection after COMMIT was done and before its answer came."""
    message = "the database does not answer; try again"
    raise UnavailableError(message)


def test_an_earlier_commit_is_recognised(sessions: Sessions) -> None:
    """When the answer to COMMIT is lost, the second try finds its own result and is content."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    event.listen(sessions.class_, "after_commit", lose_acknowledgement, once=True)

    stored = retry_while_unavailable(
        lambda: outcomes.succeed(sessions, attempt, a_result()), for_s=5, pause=lambda _s: None
    )

    assert stored
    assert count_results(sessions) == 1
    events = measurements.list_events_after(sessions, job_id, seq=0).events
    assert [one.data["status"] for one in events] == ["queued", "running", "succeeded"]


def test_a_result_and_its_job_are_one(sessions: Sessions) -> None:
    """If the result cannot be stored, the job has not succeeded either."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)

    def fail(session: Session) -> None:
        session.execute(text("SELECT 1"))
        message = "no"
        raise UnavailableError(message)

    with pytest.raises(UnavailableError):
        attempts.settle(sessions, attempt, status=Status.SUCCEEDED, write=fail)

    assert measurements.read(sessions, job_id).status is Status.RUNNING


def test_a_released_job_begins_again_until_its_attempts_are_used(sessions: Sessions) -> None:
    """Three attempts that die make a failed job that says why."""
    job_id = submitted(sessions)

    statuses = []
    for number in range(3):
        claimed(sessions, job_id, expected=number)
        statuses.append(
            attempts.release(
                sessions, job_id, attempt=number + 1, reason="the probe was killed by SIGKILL"
            ),
        )

    assert statuses == [Status.QUEUED, Status.QUEUED, Status.FAILED]
    job = measurements.read(sessions, job_id)
    assert job.error is not None
    assert job.error["type"] == "attempts-exhausted"
    assert "attempt 3 of 3" in str(job.error["detail"])
    assert "SIGKILL" in str(job.error["detail"])
    assert measurements.list_events_after(sessions, job_id, seq=0).is_last


def test_a_cancelled_job_is_not_begun_again(sessions: Sessions) -> None:
    """When its worker dies before it saw the flag, the job is cancelled, not queued."""
    job_id = submitted(sessions)
    claimed(sessions, job_id)
    measurements.cancel(sessions, job_id)

    assert attempts.release(sessions, job_id, attempt=1, reason="x") is Status.CANCELLED

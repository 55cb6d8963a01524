"""Claim, heartbeat and end of an attempt against a real database: one winner, and a fence that
holds.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import event, text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import UnavailableError
from service.jobs.contract import JobPayload, ProbeDevice, Progress
from service.jobs.notify import skip_notification
from service.jobs.states import QUEUE_LIMIT_S, Lease, Status
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, outcomes
from service.usecases.jobs.attempts import Attempt
from service.usecases.operations.reconcile import reconcile
from tests.job_builders import a_request, a_result
from worker.retry import retry_while_unavailable

Sessions = sessionmaker[Session]
LEASE_S = 30.0
DEADLINE_S = 600.0
TERMS: Mapping[str, float] = {"lease_s": LEASE_S, "deadline_s": DEADLINE_S}


def submitted(sessions: Sessions, *, settings: Settings | None = None) -> UUID:
    """Return the id of a queued job."""
    job = measurements.submit(
        sessions, a_request(), key="k", settings=settings or Settings(), notify=skip_notification
    )
    return job.id


def claimed(sessions: Sessions, job_id: UUID, *, expected: int = 0, worker: str = "w") -> Attempt:
    """Return a fresh attempt at a queued job."""
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=expected), worker=worker, **TERMS
    )
    assert attempt is not None
    return attempt


def end_lease(sessions: Sessions, job_id: UUID) -> None:
    """Let a lease run out now."""
    with sessions.begin() as session:
        session.execute(
            text("UPDATE measurements SET lease_until = now() - interval '1 s' WHERE id = :id"),
            {"id": job_id},
        )


def requeue(sessions: Sessions) -> None:
    """Make one pass of the reconcile loop."""
    reconcile(sessions, rering_after_s=15, gone_after_s=30, notify=skip_notification)


def count_results(sessions: Sessions) -> int:
    """Return how many results are stored."""
    with sessions() as session:
        return int(session.execute(text("SELECT count(*) FROM measurement_results")).scalar_one())


def test_of_many_claims_one_wins(sessions: Sessions) -> None:
    """Twenty workers that heard the same ring make one attempt."""
    payload = JobPayload(job_id=submitted(sessions), attempt=0)

    with ThreadPoolExecutor(8) as pool:
        won = list(
            pool.map(
                lambda number: attempts.claim(sessions, payload, worker=f"w{number}", **TERMS),
                range(20),
            ),
        )

    assert [attempt.number for attempt in won if attempt is not None] == [1]


def test_a_stale_ring_claims_nothing(sessions: Sessions) -> None:
    """A ring for attempt 0 that arrives after attempt 1 was lost is not taken for attempt 2's."""
    job_id = submitted(sessions)
    claimed(sessions, job_id)
    end_lease(sessions, job_id)
    requeue(sessions)

    assert (
        attempts.claim(sessions, JobPayload(job_id=job_id, attempt=0), worker="late", **TERMS)
        is None
    )
    assert claimed(sessions, job_id, expected=1).number == 2


def test_a_claim_carries_what_was_asked(sessions: Sessions) -> None:
    """The request comes back from the row as it was, and the worker shows in the job."""
    job_id = submitted(sessions)

    attempt = claimed(sessions, job_id, worker="w7")

    assert attempt.request == a_request()
    assert attempt.key == "k"
    job = measurements.read(sessions, job_id)
    assert (job.status, job.attempt, job.worker) == (Status.RUNNING, 1, "w7")


def test_time_in_the_queue_is_no_running_time(sessions: Sessions) -> None:
    """An attempt has its whole deadline from its claim, however long the job waited; back in the
    queue it waits as long.
    """
    job_id = submitted(sessions)
    with sessions.begin() as session:
        waited = text(
            "UPDATE measurements SET created_at = created_at - interval '2 days' WHERE id = :id"
        )
        session.execute(waited, {"id": job_id})

    claimed(sessions, job_id)
    running = measurements.read(sessions, job_id)
    attempts.release(sessions, job_id, attempt=1, reason="lost")
    queued = measurements.read(sessions, job_id)

    assert running.started_at is not None
    assert running.deadline_at - running.started_at == timedelta(seconds=DEADLINE_S)
    assert queued.deadline_at - running.started_at > timedelta(seconds=QUEUE_LIMIT_S)


def test_a_request_of_another_version_fails_in_words(sessions: Sessions) -> None:
    """A row that this version cannot read ends its job instead of its workers."""
    job_id = submitted(sessions)
    with sessions.begin() as session:
        change = text(
            """UPDATE measurements SET request = request || '{"surprise": 1}' WHERE id = :id"""
        )
        session.execute(change, {"id": job_id})

    attempt = attempts.claim(sessions, JobPayload(job_id=job_id, attempt=0), worker="w", **TERMS)

    assert attempt is None
    job = measurements.read(sessions, job_id)
    assert job.status is Status.FAILED
    assert job.error is not None
    assert job.error["type"] == "unreadable-request"
    assert "surprise" in str(job.error["detail"])


def test_the_next_job_is_the_oldest_of_the_highest_priority(sessions: Sessions) -> None:
    """A poll finds what the bell would have rung for first."""
    first = submitted(sessions)
    submitted(sessions)

    found = attempts.find_queued(sessions, device=ProbeDevice.CPU)

    assert found == JobPayload(job_id=first, attempt=0)
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA) is None


def test_a_gpu_takes_only_jobs_that_it_can_answer(sessions: Sessions) -> None:
    """A job for an H200 waits for one; a job for any GPU, or one that a processor runs, does not
    wait.
    """

    def asked(device: ProbeDevice, gpu: str | None) -> UUID:
        request = a_request(device=device, gpu=gpu)
        return measurements.submit(
            sessions, request, key="k", settings=Settings(), notify=skip_notification
        ).id

    named, traced = (
        asked(ProbeDevice.CUDA, "H200-SXM5-141GB"),
        asked(ProbeDevice.TRACE, "H200-SXM5-141GB"),
    )

    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA, gpu="A10-24GB") is None
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA) is None
    assert attempts.find_queued(
        sessions, device=ProbeDevice.CUDA, gpu="H200-SXM5-141GB"
    ) == JobPayload(job_id=named, attempt=0)
    assert attempts.find_queued(sessions, device=ProbeDevice.TRACE) == JobPayload(
        job_id=traced, attempt=0
    )
    unnamed = asked(ProbeDevice.CUDA, None)
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA, gpu="A10-24GB") == JobPayload(
        job_id=unnamed, attempt=0
    )


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

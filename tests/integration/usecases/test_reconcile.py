"""The loop that loses no job, against a real database."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from uuid import UUID

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError
from sqlalchemy.orm import Session, sessionmaker

from service.db.session import make_engine
from service.jobs.contract import JobPayload, ProbeDevice
from service.jobs.notify import skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.runtime.variables import parse_psycopg_url
from service.usecases.jobs import attempts, measurements
from service.usecases.operations.load import read_load
from service.usecases.operations.reconcile import ReconcileResult, reconcile, run_forever
from tests.job_builders import a_request
from tests.waiting import eventually

Sessions = sessionmaker[Session]
RERING_AFTER_S = 15.0


class Rings:
    """A notifier that remembers."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.heard: list[JobPayload] = []

    def __call__(self, _device: ProbeDevice, payload: JobPayload) -> None:
        """Hear one ring."""
        self.heard.append(payload)


def submit(sessions: Sessions) -> UUID:
    """Return the id of a queued job."""
    return measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    ).id


def claim(sessions: Sessions, job_id: UUID, *, attempt: int = 0) -> None:
    """Let a worker take a job that it will never finish."""
    assert (
        attempts.claim(
            sessions,
            JobPayload(job_id=job_id, attempt=attempt),
            worker="gone",
            lease_s=30,
            deadline_s=600,
        )
        is not None
    )


def change(sessions: Sessions, job_id: UUID, assignment: str) -> None:
    """Move one of a job's times."""
    with sessions.begin() as session:
        session.execute(
            text(f"UPDATE measurements SET {assignment} WHERE id = :id"),  # noqa: S608 - our words
            {"id": job_id},
        )


def expire(sessions: Sessions, job_id: UUID) -> None:
    """Let a lease run out now."""
    change(sessions, job_id, "lease_until = now() - interval '1 ms'")


def one_pass(
    sessions: Sessions, ring: Callable[[ProbeDevice, JobPayload], None] = skip_notification
) -> ReconcileResult:
    """Reconcile once."""
    return reconcile(sessions, rering_after_s=RERING_AFTER_S, gone_after_s=30, notify=ring)


def test_lost_leases_and_the_age_of_the_queue_are_counted(sessions: Sessions) -> None:
    """The first of each device's queue, since it came there; a job that was given back came there
    anew, its lease is lost.
    """
    lost, waiting = submit(sessions), submit(sessions)
    claim(sessions, lost)
    change(sessions, waiting, "deadline_at = deadline_at - interval '60 s'")
    assert read_load(sessions).lost_leases == 0

    expire(sessions, lost)
    one_pass(sessions)
    load = read_load(sessions)
    change(sessions, waiting, "state = 'cancelled', finished_at = now()")
    later = read_load(sessions)

    assert load.lost_leases == 1
    assert load.oldest_s.keys() == {"cpu"}
    assert 60 <= load.oldest_s["cpu"] < 120
    assert later.oldest_s["cpu"] < 60


def test_what_a_dead_worker_held_is_queued_and_rung_for(sessions: Sessions) -> None:
    """After the lease the next attempt may begin, and the ring names it."""
    job_id, rings = submit(sessions), Rings()
    claim(sessions, job_id)
    expire(sessions, job_id)

    done = one_pass(sessions, rings)

    assert done == ReconcileResult(requeued=1, ended=0, notified=0)
    assert rings.heard == [JobPayload(job_id=job_id, attempt=1)]
    job = measurements.read(sessions, job_id)
    assert (job.status, job.worker) == (Status.QUEUED, None)


def test_a_living_lease_is_left_alone(sessions: Sessions) -> None:
    """Nobody takes a job from a worker that renews its lease."""
    claim(sessions, submit(sessions))

    assert one_pass(sessions) == ReconcileResult(requeued=0, ended=0, notified=0)


def test_the_third_lost_attempt_is_the_last(sessions: Sessions) -> None:
    """A job that kills its workers ends, and says so."""
    job_id = submit(sessions)

    for attempt in range(3):
        claim(sessions, job_id, attempt=attempt)
        expire(sessions, job_id)
        one_pass(sessions)

    job = measurements.read(sessions, job_id)
    assert job.status is Status.FAILED
    assert job.error is not None
    assert job.error["type"] == "attempts-exhausted"
    assert "gone did not renew its lease" in str(job.error["detail"])


def test_a_cancelled_job_of_a_dead_worker_is_cancelled(sessions: Sessions) -> None:
    """The flag is honoured although nobody is left to see it."""
    job_id = submit(sessions)
    claim(sessions, job_id)
    measurements.cancel(sessions, job_id)
    expire(sessions, job_id)

    one_pass(sessions)

    assert measurements.read(sessions, job_id).status is Status.CANCELLED


def test_a_job_that_no_worker_took_in_time_fails_in_words(sessions: Sessions) -> None:
    """The queue has a limit of its own, and the reason names it and asks whether a worker runs."""
    job_id = submit(sessions)
    change(sessions, job_id, "deadline_at = now()")

    done = one_pass(sessions)

    job = measurements.read(sessions, job_id)
    assert done.ended == 1
    assert job.status is Status.FAILED
    assert job.error is not None
    assert "in 7 days; is one running for device 'cpu'?" in str(job.error["detail"])


def test_an_overdue_job_is_not_begun_again(sessions: Sessions) -> None:
    """A lost attempt after the deadline ends the job."""
    job_id = submit(sessions)
    claim(sessions, job_id)
    change(sessions, job_id, "deadline_at = now()")
    expire(sessions, job_id)

    one_pass(sessions)

    assert measurements.read(sessions, job_id).status is Status.FAILED


def test_a_lost_notification_is_sent_again_but_not_at_once(sessions: Sessions) -> None:
    """A fresh job is left to its first ring; after the time for it, each pass rings at most once
    per interval.
    """
    job_id, rings = submit(sessions), Rings()
    one_pass(sessions, rings)
    assert rings.heard == []
    change(sessions, job_id, f"rung_at = now() - interval '{RERING_AFTER_S + 1} s'")

    one_pass(sessions, rings)
    one_pass(sessions, rings)

    assert rings.heard == [JobPayload(job_id=job_id, attempt=0)]


def test_many_reconcilers_move_each_job_once(sessions: Sessions) -> None:
    """Copies of the loop share the work and never do it twice."""
    ids = [submit(sessions) for _ in range(20)]
    for job_id in ids:
        claim(sessions, job_id)
        expire(sessions, job_id)
    rings = Rings()

    with ThreadPoolExecutor(6) as pool:
        passes = list(pool.map(lambda _: one_pass(sessions, rings), range(6)))

    assert sum(done.requeued for done in passes) == 20
    assert {payload.job_id for payload in rings.heard} == set(ids)
    assert len(rings.heard) == 20
    events = [measurements.list_events_after(sessions, job_id, seq=0).events for job_id in ids]
    told = [[one.data["status"] for one in stream if one.kind == "status"] for stream in events]
    assert told == [["queued", "running", "queued"]] * 20
    assert all([one.kind for one in stream].count("progress") <= 1 for stream in events)


def test_a_worker_that_is_frozen_inside_a_transaction_loses_its_job(
    sessions: Sessions, database_url: str
) -> None:
    """Its lock on the row does not outlive the time that a worker's transactions may idle."""
    job_id = submit(sessions)
    claim(sessions, job_id)
    url = parse_psycopg_url("DATABASE_URL", database_url)
    engine = make_engine(url, application_name="frozen", idle_in_transaction_timeout_s=1)

    with engine.connect() as frozen:
        frozen.execute(text("SELECT 1 FROM measurements WHERE id = :id FOR UPDATE"), {"id": job_id})
        held = not is_free(sessions, job_id)
        eventually(lambda: is_free(sessions, job_id))
        expire(sessions, job_id)
        taken = one_pass(sessions)
        with pytest.raises(DBAPIError):
            frozen.execute(text("SELECT 1"))
    engine.dispose()

    assert held
    assert taken == ReconcileResult(requeued=1, ended=0, notified=0)


def is_free(sessions: Sessions, job_id: UUID) -> bool:
    """Tell whether nobody holds a job's row."""
    with sessions() as session:
        query = text("SELECT 1 FROM measurements WHERE id = :id FOR UPDATE SKIP LOCKED")
        return session.execute(query, {"id": job_id}).first() is not None


def test_the_loop_runs_until_it_is_told_to_stop(sessions: Sessions) -> None:
    """It works in the background, and stops when asked."""
    job_id, stop = submit(sessions), threading.Event()
    claim(sessions, job_id)
    expire(sessions, job_id)
    settings = replace(Settings(), reconcile_interval_s=0.01)
    loop = threading.Thread(
        target=run_forever,
        args=(sessions,),
        kwargs={"settings": settings, "notify": skip_notification, "stop": stop},
    )

    loop.start()
    try:
        eventually(lambda: measurements.read(sessions, job_id).status is Status.QUEUED)
    finally:
        stop.set()
        loop.join(timeout=10)

    assert not loop.is_alive()

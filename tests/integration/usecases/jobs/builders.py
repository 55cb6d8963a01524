"""Queued jobs, attempts at them, and leases that run out."""

from collections.abc import Mapping
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import JobPayload
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements
from service.usecases.jobs.attempts import Attempt
from service.usecases.operations.reconcile import reconcile
from tests.job_builders import a_request

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

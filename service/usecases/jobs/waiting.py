"""Phases of queued measurements: waiting for a turn or a worker."""

from sqlalchemy.orm import Session

from service.db.queries import queued_jobs
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import Event, add_events
from service.db.session import transaction
from service.jobs.states import Status
from service.usecases.stored import Sessions

BATCH = 1000
"""Rows of one transaction; the next pass takes the rest."""


def describe_waiting_phase(session: Session, device: str, *, gone_after_s: float) -> str:
    """Return the phase of a queued job.

    It is in words when no worker of its device was alive in ``gone_after_s`` seconds.
    """
    if worker_queries.has_live_worker(session, device, gone_after_s=gone_after_s):
        return Status.QUEUED.value
    return f"waits for a worker on device {device}; none is alive"


def get_reason(phase: str) -> str | None:
    """Return the phase where it differs from the status."""
    return None if phase == Status.QUEUED.value else phase


def update_waiting_phases(sessions: Sessions, *, gone_after_s: float) -> None:
    """Update the phase of queued jobs and add progress events.

    Their status stays what it is.
    """
    with transaction(sessions) as session:
        for device in queued_jobs.list_queued_devices(session):
            phase = describe_waiting_phase(session, device, gone_after_s=gone_after_s)
            for row in queued_jobs.lock_queued(
                session, device=device, other_than=phase, limit=BATCH
            ):
                row.phase = phase
                session.flush()
                add_events(session, row.id, [_make_queued_event(row.attempt, phase)])


def _make_queued_event(attempt: int, phase: str) -> Event:
    return Event(
        "progress",
        {"progress": 0.0, "status": Status.QUEUED.value, "attempt": attempt, "phase": phase},
    )

"""What a queued measurement waits for, in its phase and its events: its turn, or a worker that is not there."""

from sqlalchemy.orm import Session

from service.db.queries import attempts as queries
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import Event
from service.db.session import transaction
from service.jobs.states import Status
from service.usecases.stored import Sessions

BATCH = 1000
"""Rows of one transaction; the next pass takes the rest."""


def waiting_phase(session: Session, device: str, *, gone_after_s: float) -> str:
    """Return the phase of a queued job: in words when no worker of its device was alive in ``gone_after_s`` seconds."""
    if worker_queries.is_served(session, device, gone_after_s=gone_after_s):
        return Status.QUEUED.value
    return f"waits for a worker on device {device}; none is alive"


def reason_of(phase: str) -> str | None:
    """Return the phase where it says more than the status does."""
    return None if phase == Status.QUEUED.value else phase


def tell_what_they_wait_for(sessions: Sessions, *, gone_after_s: float) -> None:
    """Bring the phase of queued jobs up to date, and tell it as progress: their status stays what it is."""
    with transaction(sessions) as session:
        for device in queries.queued_devices(session):
            phase = waiting_phase(session, device, gone_after_s=gone_after_s)
            for row in queries.lock_queued(session, device=device, other_than=phase, limit=BATCH):
                row.phase = phase
                session.flush()
                queries.add_events(session, row.id, [_still_queued(row.attempt, phase)])


def _still_queued(attempt: int, phase: str) -> Event:
    return Event("progress", {"progress": 0.0, "status": Status.QUEUED.value, "attempt": attempt, "phase": phase})

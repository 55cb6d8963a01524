"""Changes of a job's status, with their events and problems."""

from datetime import timedelta

from sqlalchemy.orm import Session

from service.db.queries import attempts as queries
from service.db.queries.attempts import Event
from service.db.tables.core import MeasureJobRow
from service.jobs.states import QUEUE_LIMIT_S, JobState, Status, get_status_after_lost_attempt

Problem = dict[str, object]


def end_lost_attempt(session: Session, row: MeasureJobRow, *, reason: str) -> Status:
    """Move a locked job on after its attempt was lost.

    The job goes back to the queue, or to its end.
    """
    status = get_status_after_lost_attempt(
        JobState(
            status=Status.RUNNING,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            cancel_requested=row.cancel_requested,
            overdue=row.deadline_at <= queries.read_database_time(session),
        ),
    )
    error = _make_lost_problem(row, reason) if status is Status.FAILED else None
    change_status(session, row, status, error=error, reason=reason)
    return status


def change_status(
    session: Session, row: MeasureJobRow, status: Status, *, error: Problem | None, reason: str
) -> None:
    """Write a locked row's next state and its event."""
    now = queries.read_database_time(session)
    row.state, row.lease_until, row.error, row.phase = status.value, None, error, status.value
    if status is Status.QUEUED:
        row.progress, row.rung_at, row.deadline_at = (
            0.0,
            now,
            now + timedelta(seconds=QUEUE_LIMIT_S),
        )
        row.finished_at = None
    if status.is_terminal:
        row.finished_at = now
    session.flush()
    queries.add_events(
        session,
        row.id,
        [make_status_event(status, attempt=row.attempt, error=error, reason=reason)],
    )


def make_status_event(status: Status, *, attempt: int, **more: object) -> Event:
    """Return the event of a new status, without unknown facts."""
    return Event(
        "status",
        {
            "status": status.value,
            "attempt": attempt,
            **{key: value for key, value in more.items() if value is not None},
        },
    )


def make_problem(slug: str, title: str, detail: str) -> Problem:
    """Return the problem document of a failed job.

    It has no ``status``, since no HTTP request failed.
    """
    return {"type": slug, "title": title, "detail": detail}


def _make_lost_problem(row: MeasureJobRow, reason: str) -> Problem:
    return make_problem(
        "attempts-exhausted",
        "The measurement could not be finished",
        f"attempt {row.attempt} of {row.max_attempts} was the last; {reason}",
    )

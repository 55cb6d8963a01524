"""Statements of the job protocol.

Every step is a compare-and-set on the state and the attempt, timed by the database's clock.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, func, insert, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementSampleRow
from service.jobs.states import FINISHABLE, JobState, Status

Job = MeasureJobRow
FINISHABLE_STATES = tuple(status.value for status in FINISHABLE)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """One line of a job's event stream, before it has a number."""

    kind: str
    data: Document


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Result of claiming a job: the new attempt and the request."""

    attempt: int
    request: Document
    key: str
    request_id: str | None
    traceparent: str | None


def claim(
    session: Session,
    job_id: uuid.UUID,
    *,
    expected: int,
    worker: str,
    lease_s: float,
    deadline_s: float,
) -> Claim | None:
    """Take a queued job whose attempt is still ``expected``.

    The lease is ``lease_s`` seconds; ``deadline_s`` run from now.
    """
    statement = (
        update(Job)
        .where(
            Job.id == job_id,
            Job.state == Status.QUEUED,
            Job.attempt == expected,
            Job.deadline_at > func.now(),
        )
        .values(
            state=Status.RUNNING,
            attempt=Job.attempt + 1,
            lease_until=_compute_time_in(lease_s),
            deadline_at=_compute_time_in(deadline_s),
            worker=worker,
            started_at=func.coalesce(Job.started_at, func.now()),
            progress=0.0,
            phase="starting",
        )
        .returning(Job.attempt, Job.request, Job.key, Job.request_id, Job.traceparent)
    )
    row = session.execute(statement).first()
    if row is None:
        return None
    return Claim(
        attempt=row.attempt,
        request=row.request,
        key=row.key,
        request_id=row.request_id,
        traceparent=row.traceparent,
    )


def extend_lease(session: Session, job_id: uuid.UUID, *, attempt: int, lease_s: float) -> bool:
    """Extend the lease of a running attempt to ``lease_s`` seconds.

    Return False when it is no longer the running attempt.
    """
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING)
        .values(lease_until=_compute_time_in(lease_s))
        .returning(Job.id)
    )
    return session.execute(statement).first() is not None


def read_state(session: Session, job_id: uuid.UUID) -> JobState | None:
    """Return what decides a job's next state."""
    row = session.execute(
        select(
            Job.state,
            Job.attempt,
            Job.max_attempts,
            Job.cancel_requested,
            Job.deadline_at <= func.now(),
        ).where(Job.id == job_id),
    ).first()
    if row is None:
        return None
    state, attempt, max_attempts, cancel_requested, overdue = row
    return JobState(
        status=Status(state),
        attempt=attempt,
        max_attempts=max_attempts,
        cancel_requested=cancel_requested,
        overdue=overdue,
    )


def report(
    session: Session, job_id: uuid.UUID, *, attempt: int, progress: float | None, phase: str | None
) -> bool:
    """Store the progress of a running attempt.

    Return False when it is no longer the running attempt.
    """
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING)
        .values(
            progress=func.coalesce(progress, Job.progress), phase=func.coalesce(phase, Job.phase)
        )
        .returning(Job.id)
    )
    return session.execute(statement).first() is not None


def settle(
    session: Session,
    job_id: uuid.UUID,
    *,
    attempt: int,
    status: Status,
    phase: str,
    error: Document | None = None,
) -> bool:
    """End a job with the answer of ``attempt``.

    A late answer is taken too, while nobody has claimed the next attempt.
    """
    values: dict[str, object] = {
        "state": status,
        "phase": phase,
        "error": error,
        "lease_until": None,
        "finished_at": func.now(),
    }
    if status is Status.SUCCEEDED:
        values["progress"] = 1.0
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state.in_(FINISHABLE_STATES))
        .values(**values)
        .returning(Job.id)
    )
    return session.execute(statement).first() is not None


def is_settled(session: Session, job_id: uuid.UUID, *, attempt: int, status: Status) -> bool:
    """Return whether ``attempt`` ended this job with ``status``.

    It did so in an earlier commit whose acknowledgement was lost.
    """
    query = select(Job.id).where(Job.id == job_id, Job.attempt == attempt, Job.state == status)
    return session.execute(query).first() is not None


def lock_running(session: Session, job_id: uuid.UUID, *, attempt: int) -> MeasureJobRow | None:
    """Return and lock the row of a running attempt."""
    query = (
        select(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING)
        .with_for_update()
    )
    return session.scalars(query).first()


def read_database_time(session: Session) -> datetime:
    """Return the database's time at the start of this transaction.

    It is the only clock of the protocol.
    """
    return session.scalars(select(func.now())).one()


def lock_expired(session: Session, *, limit: int) -> Sequence[MeasureJobRow]:
    """Return and lock running jobs whose lease is over.

    Rows that another reconciler holds are skipped.
    """
    query = (
        select(Job)
        .where(Job.state == Status.RUNNING, Job.lease_until < func.now())
        .order_by(Job.lease_until)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def add_events(session: Session, job_id: uuid.UUID, events: Sequence[Event]) -> None:
    """Append to a job's event stream.

    The row's lock hands out the numbers without a gap or a double.
    """
    if not events:
        return
    numbered = (
        update(Job)
        .where(Job.id == job_id)
        .values(last_event=Job.last_event + len(events))
        .returning(Job.last_event)
    )
    first = session.execute(numbered).scalar_one() - len(events) + 1
    session.execute(
        insert(MeasurementEventRow),
        [
            {"job_id": job_id, "seq": first + offset, "kind": event.kind, "data": event.data}
            for offset, event in enumerate(events)
        ],
    )


def add_samples(
    session: Session, job_id: uuid.UUID, *, attempt: int, first: int, samples: Sequence[Document]
) -> list[Document]:
    """Store samples of an attempt and return the new ones.

    ``first`` is the number of the first. Samples that an earlier try stored, whose answer was lost,
    are not returned.
    """
    rows = [
        {"job_id": job_id, "attempt": attempt, "seq": first + offset, **sample}
        for offset, sample in enumerate(samples)
    ]
    if not rows:
        return []
    statement = (
        upsert(MeasurementSampleRow).on_conflict_do_nothing().returning(MeasurementSampleRow.seq)
    )
    return [samples[seq - first] for seq in sorted(session.scalars(statement, rows))]


def _compute_time_in(seconds: float) -> ColumnElement[Any]:
    return func.now() + timedelta(seconds=seconds)

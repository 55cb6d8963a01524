"""The job protocol as SQL: every step is a compare-and-set on the state and the attempt, timed by the database's clock."""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Interval, func, insert, literal, or_, select, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.orm import Session

from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementSampleRow
from service.jobs.states import FINISHABLE, PRIORITY_S, JobState, Status

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
    """What the claim of a job returns: the new attempt, and what was asked."""

    attempt: int
    request: Document
    key: str
    request_id: str | None
    traceparent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A queued job as a ring names it."""

    job_id: uuid.UUID
    attempt: int
    device: str


def next_queued(session: Session, *, device: str, gpus: Sequence[str] | None = None) -> Waiting | None:
    """Return the job that an idle worker of ``device`` should claim next; with ``gpus`` one for these or for any GPU."""
    fits = literal(True) if gpus is None else or_(Job.gpu.is_(None), Job.gpu.in_(gpus))  # noqa: FBT003 - SQL's own word
    query = (
        select(Job.id, Job.attempt)
        .where(Job.state == Status.QUEUED, Job.device == device, Job.deadline_at > func.now(), fits)
        .order_by(_turn())
        .limit(1)
    )
    row = session.execute(query).first()
    return None if row is None else Waiting(job_id=row.id, attempt=row.attempt, device=device)


def claim(
    session: Session, job_id: uuid.UUID, *, expected: int, worker: str, lease_s: float, deadline_s: float
) -> Claim | None:
    """Take a queued job whose attempt is still ``expected`` for ``lease_s`` seconds; ``deadline_s`` run from now."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.state == Status.QUEUED, Job.attempt == expected, Job.deadline_at > func.now())
        .values(
            state=Status.RUNNING,
            attempt=Job.attempt + 1,
            lease_until=_in_seconds(lease_s),
            deadline_at=_in_seconds(deadline_s),
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
    return Claim(attempt=row.attempt, request=row.request, key=row.key, request_id=row.request_id, traceparent=row.traceparent)


def extend_lease(session: Session, job_id: uuid.UUID, *, attempt: int, lease_s: float) -> bool:
    """Keep a running attempt for another ``lease_s`` seconds; false when it is no longer the running one."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING)
        .values(lease_until=_in_seconds(lease_s))
        .returning(Job.id)
    )
    return session.execute(statement).first() is not None


def read_state(session: Session, job_id: uuid.UUID) -> JobState | None:
    """Return what decides a job's next state."""
    row = session.execute(
        select(Job.state, Job.attempt, Job.max_attempts, Job.cancel_requested, Job.deadline_at <= func.now()).where(
            Job.id == job_id
        )
    ).first()
    if row is None:
        return None
    state, attempt, max_attempts, cancel_requested, overdue = row
    return JobState(
        status=Status(state), attempt=attempt, max_attempts=max_attempts, cancel_requested=cancel_requested, overdue=overdue
    )


def report(session: Session, job_id: uuid.UUID, *, attempt: int, progress: float | None, phase: str | None) -> bool:
    """Show how far a running attempt is; false when it is no longer the running one."""
    statement = (
        update(Job)
        .where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING)
        .values(progress=func.coalesce(progress, Job.progress), phase=func.coalesce(phase, Job.phase))
        .returning(Job.id)
    )
    return session.execute(statement).first() is not None


def settle(
    session: Session, job_id: uuid.UUID, *, attempt: int, status: Status, phase: str, error: Document | None = None
) -> bool:
    """End a job with the answer of ``attempt``; taken late too, while nobody has claimed the next attempt."""
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
    """Tell whether ``attempt`` ended this job so: an earlier commit whose acknowledgement was lost."""
    query = select(Job.id).where(Job.id == job_id, Job.attempt == attempt, Job.state == status)
    return session.execute(query).first() is not None


def lock_running(session: Session, job_id: uuid.UUID, *, attempt: int) -> MeasureJobRow | None:
    """Return and lock the row of a running attempt."""
    query = select(Job).where(Job.id == job_id, Job.attempt == attempt, Job.state == Status.RUNNING).with_for_update()
    return session.scalars(query).first()


def database_now(session: Session) -> datetime:
    """Return the database's time at the start of this transaction: the only clock of the protocol."""
    return session.scalars(select(func.now())).one()


def lock_expired(session: Session, *, limit: int) -> Sequence[MeasureJobRow]:
    """Return and lock running jobs whose lease is over, skipping what another reconciler holds."""
    query = (
        select(Job)
        .where(Job.state == Status.RUNNING, Job.lease_until < func.now())
        .order_by(Job.lease_until)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def lock_overdue(session: Session, *, limit: int) -> Sequence[MeasureJobRow]:
    """Return and lock jobs that nobody took within the queue's limit."""
    query = (
        select(Job)
        .where(Job.state == Status.QUEUED, Job.deadline_at <= func.now())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def queued_devices(session: Session) -> Sequence[str]:
    """Return the devices that jobs are queued for."""
    return session.scalars(select(Job.device).where(Job.state == Status.QUEUED).distinct()).all()


def lock_queued(session: Session, *, device: str, other_than: str, limit: int) -> Sequence[MeasureJobRow]:
    """Return and lock queued jobs of ``device`` in another phase than ``other_than``."""
    query = (
        select(Job)
        .where(Job.state == Status.QUEUED, Job.device == device, Job.phase != other_than)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def take_unheard(session: Session, *, after_s: float, limit: int) -> list[Waiting]:
    """Mark queued jobs that were not rung for ``after_s`` seconds as rung now, and return them."""
    unheard = (
        select(Job.id)
        .where(
            Job.state == Status.QUEUED,
            func.coalesce(Job.rung_at, Job.created_at) < func.now() - timedelta(seconds=after_s),
        )
        .order_by(_turn())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = update(Job).where(Job.id.in_(unheard)).values(rung_at=func.now()).returning(Job.id, Job.attempt, Job.device)
    rows = session.execute(statement).all()
    return [Waiting(job_id=row.id, attempt=row.attempt, device=row.device) for row in rows]


def add_events(session: Session, job_id: uuid.UUID, events: Sequence[Event]) -> None:
    """Append to a job's event stream; the row's lock hands out the numbers without a gap or a double."""
    if not events:
        return
    numbered = update(Job).where(Job.id == job_id).values(last_event=Job.last_event + len(events)).returning(Job.last_event)
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
    """Store readings ``first`` and following of an attempt; return those that a try whose answer was lost had not stored."""
    rows = [{"job_id": job_id, "attempt": attempt, "seq": first + offset, **sample} for offset, sample in enumerate(samples)]
    if not rows:
        return []
    statement = upsert(MeasurementSampleRow).on_conflict_do_nothing().returning(MeasurementSampleRow.seq)
    return [samples[seq - first] for seq in sorted(session.scalars(statement, rows))]


def _turn() -> ColumnElement[Any]:
    """Return what the queue is sorted by: when a job was asked for, moved by what its priority is worth."""
    return Job.created_at - Job.priority * literal(timedelta(seconds=PRIORITY_S), Interval())


def _in_seconds(seconds: float) -> ColumnElement[Any]:
    return func.now() + timedelta(seconds=seconds)

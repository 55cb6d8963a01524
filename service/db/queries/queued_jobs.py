"""Statements about jobs that wait for a worker."""

import uuid
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Interval, func, literal, or_, select, tuple_, update
from sqlalchemy.orm import Session

from service.db.tables.core import MeasureJobRow
from service.jobs.states import PRIORITY_S, Status

Job = MeasureJobRow
UNREADABLE = "unreadable-request"
"""Problem of a job that a worker before r0019 ended because it could not read it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuedJob:
    """A queued job as a notification names it."""

    job_id: uuid.UUID
    attempt: int
    device: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NextJob:
    """The job that is next in a queue, and its request."""

    job_id: uuid.UUID
    attempt: int
    request: dict[str, Any]


def find_next_queued(
    session: Session,
    *,
    device: str,
    gpus: Sequence[str] | None = None,
    skipped: Collection[uuid.UUID] = (),
) -> NextJob | None:
    """Return the job that an idle worker should claim next.

    The worker is of ``device``; with ``gpus``, the job is for one of these or for any GPU. Jobs
    that it ``skipped`` are another worker's.
    """
    fits = literal(True) if gpus is None else or_(Job.gpu.is_(None), Job.gpu.in_(gpus))  # noqa: FBT003 - SQL's own word
    query = (
        select(Job.id, Job.attempt, Job.request)
        .where(Job.state == Status.QUEUED, Job.device == device, Job.deadline_at > func.now(), fits)
        .where(Job.id.not_in(skipped))
        .order_by(_make_queue_order())
        .limit(1)
    )
    row = session.execute(query).first()
    if row is None:
        return None
    return NextJob(job_id=row.id, attempt=row.attempt, request=row.request)


def lock_overdue(session: Session, *, limit: int) -> Sequence[MeasureJobRow]:
    """Return and lock jobs that nobody took within the queue's limit."""
    query = (
        select(Job)
        .where(Job.state == Status.QUEUED, Job.deadline_at <= func.now())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def lock_unreadable(
    session: Session,
    *,
    devices: Collection[str],
    within_s: float,
    after: tuple[datetime | None, uuid.UUID] | None,
    limit: int,
) -> Sequence[MeasureJobRow]:
    """Return and lock jobs that their worker could not read.

    They are of ``devices``, the oldest first, and ended in the last ``within_s`` seconds, ``after``
    a time and an id.
    """
    query = (
        select(Job)
        .where(
            Job.state == Status.FAILED,
            Job.error["type"].as_string() == UNREADABLE,
            Job.finished_at > func.now() - timedelta(seconds=within_s),
            Job.device.in_(devices),
        )
        .order_by(Job.finished_at, Job.id)
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    if after is not None:
        query = query.where(tuple_(Job.finished_at, Job.id) > after)
    return session.scalars(query).all()


def filter_queued(session: Session, job_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the jobs among some that are queued."""
    query = select(Job.id).where(Job.id.in_(job_ids), Job.state == Status.QUEUED)
    return set(session.scalars(query))


def list_queued_devices(session: Session) -> Sequence[tuple[str, str | None]]:
    """Return the devices and GPUs that jobs are queued for."""
    query = select(Job.device, Job.gpu).where(Job.state == Status.QUEUED).distinct()
    return [(device, gpu) for device, gpu in session.execute(query)]


def lock_queued(
    session: Session, *, device: str, gpu: str | None, other_than: str, limit: int
) -> Sequence[MeasureJobRow]:
    """Return and lock queued jobs in another phase than ``other_than``."""
    query = (
        select(Job)
        .where(
            Job.state == Status.QUEUED,
            Job.device == device,
            Job.gpu.is_not_distinct_from(gpu),
            Job.phase != other_than,
        )
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    return session.scalars(query).all()


def mark_unnotified(session: Session, *, after_s: float, limit: int) -> list[QueuedJob]:
    """Mark and return queued jobs without a recent notification.

    No worker was notified of them for ``after_s`` seconds; they count as notified now.
    """
    unnotified = (
        select(Job.id)
        .where(
            Job.state == Status.QUEUED,
            func.coalesce(Job.rung_at, Job.created_at) < func.now() - timedelta(seconds=after_s),
        )
        .order_by(_make_queue_order())
        .limit(limit)
        .with_for_update(skip_locked=True)
    )
    statement = (
        update(Job)
        .where(Job.id.in_(unnotified))
        .values(rung_at=func.now())
        .returning(Job.id, Job.attempt, Job.device)
    )
    rows = session.execute(statement).all()
    return [QueuedJob(job_id=row.id, attempt=row.attempt, device=row.device) for row in rows]


def _make_queue_order() -> ColumnElement[Any]:
    """Return the order of the queue.

    It is the time of submission, moved by what a job's priority is worth.
    """
    return Job.created_at - Job.priority * literal(timedelta(seconds=PRIORITY_S), Interval())

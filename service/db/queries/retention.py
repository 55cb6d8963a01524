"""What grows for ever and teaches nothing: progress, samples and files of measurements that are over, the log of changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from service.db.tables.access import AuditEventRow
from service.db.tables.artifacts import ArtifactRow
from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementSampleRow

_STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class Detail:
    """How many rows there are of each kind."""

    events: int
    samples: int
    artifacts: int


def jobs_with_detail(session: Session, *, older_than: timedelta, limit: int) -> Sequence[UUID]:
    """Return measurements that ended so long ago and still have samples or files, or events beside their statuses."""
    return session.scalars(_jobs(older_than).limit(limit)).all()


def delete_detail(session: Session, job_ids: Sequence[UUID]) -> Detail:
    """Delete events but statuses, samples and files of measurements; return how many of each."""
    events = delete(MeasurementEventRow).where(MeasurementEventRow.job_id.in_(job_ids), MeasurementEventRow.kind != _STATUS)
    samples = delete(MeasurementSampleRow).where(MeasurementSampleRow.job_id.in_(job_ids))
    artifacts = delete(ArtifactRow).where(ArtifactRow.job_id.in_(job_ids))
    return Detail(
        events=_count(session, events.returning(MeasurementEventRow.seq)),
        samples=_count(session, samples.returning(MeasurementSampleRow.seq)),
        artifacts=_count(session, artifacts.returning(ArtifactRow.name)),
    )


def count_detail(session: Session, *, older_than: timedelta) -> Detail:
    """Return how many rows of each kind ``delete_detail`` would find."""
    jobs = select(MeasureJobRow.id).where(_ended(older_than))
    events = select(func.count()).where(MeasurementEventRow.job_id.in_(jobs), MeasurementEventRow.kind != _STATUS)
    samples = select(func.count()).where(MeasurementSampleRow.job_id.in_(jobs))
    artifacts = select(func.count()).where(ArtifactRow.job_id.in_(jobs))
    return Detail(
        events=session.scalars(events).one(), samples=session.scalars(samples).one(), artifacts=session.scalars(artifacts).one()
    )


def delete_changes(session: Session, *, older_than: timedelta, limit: int) -> int:
    """Delete the oldest lines of the log of changes; return how many."""
    oldest = select(AuditEventRow.id).where(_written(older_than)).order_by(AuditEventRow.created_at).limit(limit)
    return _count(session, delete(AuditEventRow).where(AuditEventRow.id.in_(oldest)).returning(AuditEventRow.id))


def count_changes(session: Session, *, older_than: timedelta) -> int:
    """Return how many lines of the log of changes are so old."""
    return session.scalars(select(func.count()).where(_written(older_than))).one()


def _jobs(older_than: timedelta) -> Select[UUID]:
    event = exists().where(MeasurementEventRow.job_id == MeasureJobRow.id, MeasurementEventRow.kind != _STATUS)
    sample = exists().where(MeasurementSampleRow.job_id == MeasureJobRow.id)
    file = exists().where(ArtifactRow.job_id == MeasureJobRow.id)
    return select(MeasureJobRow.id).where(_ended(older_than), or_(event, sample, file)).order_by(MeasureJobRow.finished_at)


def _ended(older_than: timedelta) -> ColumnElement[bool]:
    return MeasureJobRow.finished_at < func.now() - older_than


def _written(older_than: timedelta) -> ColumnElement[bool]:
    return AuditEventRow.created_at < func.now() - older_than


def _count(session: Session, statement: object) -> int:
    return len(session.scalars(statement).all())  # type: ignore[call-overload]  # a DELETE that returns a column

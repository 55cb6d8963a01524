"""Statements that delete old detail.

Progress, samples and files of ended measurements, the log of changes and that of hooks grow for
ever and teach nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import ColumnElement, Select, delete, exists, func, or_, select
from sqlalchemy.orm import Session

from service.db.tables.access import AuditEventRow
from service.db.tables.artifacts import ArtifactRow
from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementSampleRow
from service.db.tables.hooks import HookDecisionRow, HookQuestionRow

_STATUS = "status"


@dataclass(frozen=True, slots=True, kw_only=True)
class DetailCounts:
    """Numbers of rows of each kind."""

    events: int
    samples: int
    artifacts: int


def list_jobs_with_detail(session: Session, *, older_than: timedelta, limit: int) -> Sequence[UUID]:
    """Return old ended measurements that still have detail.

    Detail is samples or files, or events beside their statuses.
    """
    return session.scalars(_select_jobs(older_than).limit(limit)).all()


def delete_detail(session: Session, job_ids: Sequence[UUID]) -> DetailCounts:
    """Delete detail of measurements and return the counts.

    Detail is events but statuses, samples and files.
    """
    events = delete(MeasurementEventRow).where(
        MeasurementEventRow.job_id.in_(job_ids), MeasurementEventRow.kind != _STATUS
    )
    samples = delete(MeasurementSampleRow).where(MeasurementSampleRow.job_id.in_(job_ids))
    artifacts = delete(ArtifactRow).where(ArtifactRow.job_id.in_(job_ids))
    return DetailCounts(
        events=_count_deleted(session, events.returning(MeasurementEventRow.seq)),
        samples=_count_deleted(session, samples.returning(MeasurementSampleRow.seq)),
        artifacts=_count_deleted(session, artifacts.returning(ArtifactRow.name)),
    )


def count_detail(session: Session, *, older_than: timedelta) -> DetailCounts:
    """Count the rows that ``delete_detail`` would delete."""
    jobs = select(MeasureJobRow.id).where(_is_ended(older_than))
    events = select(func.count()).where(
        MeasurementEventRow.job_id.in_(jobs), MeasurementEventRow.kind != _STATUS
    )
    samples = select(func.count()).where(MeasurementSampleRow.job_id.in_(jobs))
    artifacts = select(func.count()).where(ArtifactRow.job_id.in_(jobs))
    return DetailCounts(
        events=session.scalars(events).one(),
        samples=session.scalars(samples).one(),
        artifacts=session.scalars(artifacts).one(),
    )


def delete_changes(session: Session, *, older_than: timedelta, limit: int) -> int:
    """Delete the oldest audit events and return their number."""
    oldest = (
        select(AuditEventRow.id)
        .where(_is_written_before(older_than))
        .order_by(AuditEventRow.created_at)
        .limit(limit)
    )
    return _count_deleted(
        session,
        delete(AuditEventRow).where(AuditEventRow.id.in_(oldest)).returning(AuditEventRow.id),
    )


def delete_decisions(session: Session, *, older_than: timedelta, limit: int) -> int:
    """Delete the oldest decisions of hooks and return their number.

    A question goes once nobody has asked it for as long.
    """
    oldest = (
        select(HookDecisionRow.id)
        .where(_is_decided_before(older_than))
        .order_by(HookDecisionRow.created_at)
        .limit(limit)
    )
    deleted = _count_deleted(
        session,
        delete(HookDecisionRow).where(HookDecisionRow.id.in_(oldest)).returning(HookDecisionRow.id),
    )
    unasked = (
        select(HookQuestionRow.digest)
        .where(HookQuestionRow.last_at < func.now() - older_than)
        .limit(limit)
    )
    session.execute(delete(HookQuestionRow).where(HookQuestionRow.digest.in_(unasked)))
    return deleted


def count_decisions(session: Session, *, older_than: timedelta) -> int:
    """Count decisions of hooks of this age."""
    return session.scalars(select(func.count()).where(_is_decided_before(older_than))).one()


def count_changes(session: Session, *, older_than: timedelta) -> int:
    """Count audit events of this age."""
    return session.scalars(select(func.count()).where(_is_written_before(older_than))).one()


def _select_jobs(older_than: timedelta) -> Select[UUID]:
    event = exists().where(
        MeasurementEventRow.job_id == MeasureJobRow.id, MeasurementEventRow.kind != _STATUS
    )
    sample = exists().where(MeasurementSampleRow.job_id == MeasureJobRow.id)
    file = exists().where(ArtifactRow.job_id == MeasureJobRow.id)
    return (
        select(MeasureJobRow.id)
        .where(_is_ended(older_than), or_(event, sample, file))
        .order_by(MeasureJobRow.finished_at)
    )


def _is_ended(older_than: timedelta) -> ColumnElement[bool]:
    return MeasureJobRow.finished_at < func.now() - older_than


def _is_written_before(older_than: timedelta) -> ColumnElement[bool]:
    return AuditEventRow.created_at < func.now() - older_than


def _is_decided_before(older_than: timedelta) -> ColumnElement[bool]:
    return HookDecisionRow.created_at < func.now() - older_than


def _count_deleted(session: Session, statement: object) -> int:
    return len(session.scalars(statement).all())  # type: ignore[call-overload]  # a DELETE that returns a column

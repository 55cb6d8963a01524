"""Statements that delete old detail.

Progress, samples and files of ended measurements, the log of changes and that of hooks grow for
ever and teach nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import (
    ColumnElement,
    CursorResult,
    Delete,
    Select,
    and_,
    delete,
    func,
    select,
    tuple_,
    update,
)
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


def build_unpruned_query(older_than: timedelta, *, limit: int) -> Select[UUID]:
    """Select old ended measurements that were not pruned, oldest first."""
    return (
        select(MeasureJobRow.id)
        .where(_is_unpruned(older_than))
        .order_by(MeasureJobRow.finished_at)
        .limit(limit)
    )


def list_unpruned_jobs(session: Session, *, older_than: timedelta, limit: int) -> Sequence[UUID]:
    """Return these measurements."""
    return session.scalars(build_unpruned_query(older_than, limit=limit)).all()


def mark_pruned(session: Session, job_ids: Sequence[UUID]) -> None:
    """Store that measurements have no detail any more."""
    session.execute(
        update(MeasureJobRow).where(MeasureJobRow.id.in_(job_ids)).values(is_pruned=True)
    )


def delete_events(session: Session, *, job_ids: Sequence[UUID], limit: int) -> int:
    """Delete progress of measurements, which leaves their statuses; return how many rows."""
    rows = (
        select(MeasurementEventRow.job_id, MeasurementEventRow.seq)
        .where(MeasurementEventRow.job_id.in_(job_ids), MeasurementEventRow.kind != _STATUS)
        .limit(limit)
    )
    key = tuple_(MeasurementEventRow.job_id, MeasurementEventRow.seq)
    return _count_deleted(session, delete(MeasurementEventRow).where(key.in_(rows)))


def delete_samples(session: Session, *, job_ids: Sequence[UUID], limit: int) -> int:
    """Delete samples of measurements and return how many."""
    columns = (
        MeasurementSampleRow.job_id,
        MeasurementSampleRow.attempt,
        MeasurementSampleRow.seq,
    )
    rows = select(*columns).where(MeasurementSampleRow.job_id.in_(job_ids)).limit(limit)
    return _count_deleted(session, delete(MeasurementSampleRow).where(tuple_(*columns).in_(rows)))


def delete_artifacts(session: Session, *, job_ids: Sequence[UUID], limit: int) -> int:
    """Delete files of measurements and return how many."""
    columns = ArtifactRow.job_id, ArtifactRow.name
    rows = select(*columns).where(ArtifactRow.job_id.in_(job_ids)).limit(limit)
    return _count_deleted(session, delete(ArtifactRow).where(tuple_(*columns).in_(rows)))


def count_detail(session: Session, *, older_than: timedelta) -> DetailCounts:
    """Count progress, samples and files of old ended measurements."""
    jobs = select(MeasureJobRow.id).where(_is_unpruned(older_than))
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
    return _count_deleted(session, delete(AuditEventRow).where(AuditEventRow.id.in_(oldest)))


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
    deleted = _count_deleted(session, delete(HookDecisionRow).where(HookDecisionRow.id.in_(oldest)))
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


def _is_unpruned(older_than: timedelta) -> ColumnElement[bool]:
    return and_(
        MeasureJobRow.finished_at.is_not(None),
        ~MeasureJobRow.is_pruned,
        MeasureJobRow.finished_at < func.now() - older_than,
    )


def _is_written_before(older_than: timedelta) -> ColumnElement[bool]:
    return AuditEventRow.created_at < func.now() - older_than


def _is_decided_before(older_than: timedelta) -> ColumnElement[bool]:
    return HookDecisionRow.created_at < func.now() - older_than


def _count_deleted(session: Session, statement: Delete) -> int:
    result = session.execute(statement, execution_options={"synchronize_session": False})
    assert isinstance(result, CursorResult)  # noqa: S101 - of a DELETE
    return result.rowcount

"""Statements about plans that probes reported, with their hosts."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.records.measurements import ReportedPlan
from service.db.tables.core import MeasureJobRow, MeasurementEventRow

NUM_MEASUREMENTS = 50
"""Newest measurements that are searched: a fleet reports each of its workers more often than that.
"""

Job, Event = MeasureJobRow, MeasurementEventRow


def list_newest_plans(session: Session, *, device: str) -> Sequence[ReportedPlan]:
    """Return plans of a device's newest measurements, newest first."""
    newest = (
        select(Job.id, Job.worker, Job.request)
        .where(Job.device == device, Job.source == "probe", Job.started_at.is_not(None))
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(NUM_MEASUREMENTS)
        .subquery()
    )
    query = (
        select(Event.data, Event.created_at, newest.c.worker, newest.c.request)
        .join(newest, newest.c.id == Event.job_id)
        .where(Event.kind == "plan")
        .order_by(Event.created_at.desc())
    )
    return [
        ReportedPlan(plan=row.data, told_at=row.created_at, worker=row.worker, request=row.request)
        for row in session.execute(query)
    ]

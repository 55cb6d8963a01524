"""What probes told of their hosts when they told their plans."""

from collections.abc import Sequence

from sqlalchemy import select
from sqlalchemy.orm import Session

from service.db.records.measurements import ToldPlan
from service.db.tables.core import MeasureJobRow, MeasurementEventRow

NUM_MEASUREMENTS = 50
"""Looked through, the newest first: a fleet tells of each of its workers more often than that."""

Job, Event = MeasureJobRow, MeasurementEventRow


def newest_plans(session: Session, *, device: str) -> Sequence[ToldPlan]:
    """Return the plans of the newest measurements of a device, the last told first."""
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
        ToldPlan(plan=row.data, told_at=row.created_at, worker=row.worker, request=row.request)
        for row in session.execute(query)
    ]

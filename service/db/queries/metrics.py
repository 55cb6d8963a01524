"""Counts for metrics: jobs, queue, leases and calibrations.

Each is counted in one pass.
"""

from sqlalchemy import Float, cast, func, literal, select
from sqlalchemy.orm import Session

from service.db.records.stored import CalibrationAge, JobCount, QueueCount
from service.db.tables.core import CalibrationRow, MeasureJobRow
from service.jobs.states import QUEUE_LIMIT_S, Status

Job = MeasureJobRow


def count_jobs(session: Session) -> tuple[JobCount, ...]:
    """Count jobs and attempts by device, source, state and problem."""
    reason = Job.error["type"].as_string()
    query = select(
        Job.device,
        Job.source,
        Job.state,
        reason.label("reason"),
        func.count().label("jobs"),
        func.sum(Job.attempt).label("attempts"),
        func.sum(func.greatest(Job.attempt - 1, 0)).label("retries"),
        func.sum(Job.lost_leases).label("lost_leases"),
    ).group_by(Job.device, Job.source, Job.state, reason)
    return tuple(
        JobCount(
            device=row.device,
            source=row.source,
            state=row.state,
            reason=row.reason,
            jobs=row.jobs,
            attempts=row.attempts,
            retries=row.retries,
            lost_leases=row.lost_leases,
        )
        for row in session.execute(query)
    )


def count_queue(session: Session) -> tuple[QueueCount, ...]:
    """Count queued jobs by device and priority, with the oldest wait."""
    # A job's deadline in the queue says when it came there; a job that was given back came there
    # anew.
    left_s = func.extract("epoch", func.min(Job.deadline_at) - func.now())
    query = (
        select(Job.device, Job.priority, func.count().label("jobs"), left_s.label("left_s"))
        .where(Job.state == Status.QUEUED)
        .group_by(Job.device, Job.priority)
    )
    return tuple(
        QueueCount(
            device=row.device,
            weight=row.priority,
            jobs=row.jobs,
            oldest_s=max(0.0, QUEUE_LIMIT_S - float(row.left_s)),
        )
        for row in session.execute(query)
    )


def count_expired_leases(session: Session) -> int:
    """Count running jobs with an expired lease.

    They wait for a reconcile loop to take them back.
    """
    query = select(func.count()).where(Job.state == Status.RUNNING, Job.lease_until < func.now())
    return int(session.scalar(query) or 0)


def list_calibration_ages(session: Session) -> tuple[CalibrationAge, ...]:
    """Return calibrated keys and newest age by quantity."""
    row = CalibrationRow
    age_s = cast(func.extract("epoch", func.now() - func.max(row.created_at)), Float)
    query = (
        select(
            row.quantity,
            func.count(row.key.distinct()).label("keys"),
            func.greatest(age_s, literal(0.0)).label("newest_s"),
        )
        .group_by(row.quantity)
        .order_by(row.quantity)
    )
    return tuple(
        CalibrationAge(quantity=entry.quantity, num_keys=entry.keys, newest_s=entry.newest_s)
        for entry in session.execute(query)
    )

"""Statements about measurements for users.

Those of workers on the same rows are in ``attempts``.
"""

from datetime import timedelta
from uuid import UUID

from sqlalchemy import func, insert, or_, select
from sqlalchemy.orm import Session

from service.db.owners import make_owner_columns, read_owner
from service.db.queries.artifacts import list_artifacts
from service.db.queries.imports import make_approved_condition
from service.db.records.measurements import (
    StoredArtifact,
    StoredEvent,
    StoredMeasurement,
    StoredResult,
)
from service.db.records.stored import NewJob
from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementResultRow
from service.jobs.contract import MeasureRequest, Priority, make_document
from service.jobs.states import QUEUE_LIMIT_S, Status

_WEIGHTS = {Priority.LOW: -1, Priority.NORMAL: 0, Priority.HIGH: 1}

_TEACHING = ("allocated_bytes", "device_bytes", "device_total_used_bytes")
Job = MeasureJobRow
Event = MeasurementEventRow


def insert_job(session: Session, job_id: UUID, request: MeasureRequest, new: NewJob) -> None:
    """Store a queued job that counts as notified now.

    A worker is notified as soon as this transaction is committed.
    """
    session.execute(
        insert(Job).values(
            id=job_id,
            request=make_document(request),
            key=new.key,
            device=request.device.value,
            gpu=request.gpu,
            model_name=request.model.name,
            model_revision=request.model.revision,
            priority=_WEIGHTS[request.priority],
            max_attempts=new.max_attempts,
            phase=new.phase,
            request_id=new.request_id,
            traceparent=new.traceparent,
            deadline_at=func.now() + timedelta(seconds=QUEUE_LIMIT_S),
            rung_at=func.now(),
            **make_owner_columns(new.created_by),
        ),
    )


def lock_quota(session: Session, owner_key: str) -> None:
    """Let one transaction at a time count what a key asked for.

    Each statement after this one sees what every earlier one has committed.
    """
    session.execute(
        select(func.pg_advisory_xact_lock(func.hashtextextended(f"quota {owner_key}", 0)))
    )


def read_wait_s(
    session: Session, owner_key: str, *, window: timedelta, at_most: int
) -> float | None:
    """Return the seconds until a quota has room.

    That is until a key has asked for at most ``at_most`` in ``window``, cancelled and failed ones
    counted; null where it has asked for no more.
    """
    begin = func.now() - window
    statement = (
        select(func.extract("epoch", Job.created_at - begin))
        .where(Job.created_by_key == owner_key, Job.source == "probe", Job.created_at > begin)
        .order_by(Job.created_at.desc())
        # The one that has to leave the window; the index ends the search there.
        .offset(at_most)
        .limit(1)
    )
    wait_s = session.scalar(statement)
    return None if wait_s is None else float(wait_s)


def read_measurement(session: Session, job_id: UUID) -> StoredMeasurement | None:
    """Return one measurement with its result."""
    row = session.get(Job, job_id)
    if row is None:
        return None
    return to_stored_measurement(
        row,
        session.get(MeasurementResultRow, job_id),
        list_artifacts(session, [job_id]).get(job_id, ()),
    )


def lock_job(session: Session, job_id: UUID) -> MeasureJobRow | None:
    """Return and lock a job's row."""
    return session.scalars(select(Job).where(Job.id == job_id).with_for_update()).first()


def read_status(session: Session, job_id: UUID) -> Status | None:
    """Return the status of a job."""
    state = session.scalar(select(Job.state).where(Job.id == job_id))
    return None if state is None else Status(state)


def list_events_after(
    session: Session, job_id: UUID, *, seq: int, limit: int
) -> tuple[StoredEvent, ...]:
    """Return up to ``limit`` events of a job that follow event ``seq``."""
    query = (
        select(Event)
        .where(Event.job_id == job_id, Event.seq > seq)
        .order_by(Event.seq)
        .limit(limit)
    )
    return tuple(
        StoredEvent(seq=row.seq, kind=row.kind, data=row.data, created_at=row.created_at)
        for row in session.scalars(query)
    )


def list_succeeded_with_key(
    session: Session, key: str, *, limit: int, cluster: str | None = None
) -> tuple[StoredMeasurement, ...]:
    """Return the newest results of a calibration key.

    They are the evidence for its next calibration; with ``cluster``, those of its GPUs alone.

    An import is among them where it has what PyTorch's allocator counted, beside which all else is
    learnt, or all memory in use on the GPU; one that waits for an operator is not.
    """
    has_peak = [MeasurementResultRow.peaks[name].as_string().is_not(None) for name in _TEACHING]
    is_evidence = or_(Job.source == "probe", *has_peak)
    query = (
        select(Job, MeasurementResultRow)
        .join(MeasurementResultRow, MeasurementResultRow.job_id == Job.id)
        .where(
            Job.key == key,
            Job.state == Status.SUCCEEDED,
            is_evidence,
            make_approved_condition(),
        )
        .order_by(Job.created_at.desc(), Job.id.desc())
        .limit(limit)
    )
    if cluster is not None:
        query = query.where(MeasurementResultRow.environment["cluster"].as_string() == cluster)
    return tuple(to_stored_measurement(job, result) for job, result in session.execute(query))


def to_stored_measurement(
    row: MeasureJobRow,
    result: MeasurementResultRow | None,
    artifacts: tuple[StoredArtifact, ...] = (),
) -> StoredMeasurement:
    """Return a row with its result and artifacts as a value."""
    return StoredMeasurement(
        id=row.id,
        status=Status(row.state),
        attempt=row.attempt,
        max_attempts=row.max_attempts,
        device=row.device,
        gpu=row.gpu,
        model_name=row.model_name,
        model_revision=row.model_revision,
        request=row.request,
        key=row.key,
        priority=row.priority,
        cancel_requested=row.cancel_requested,
        progress=row.progress,
        phase=row.phase,
        # In the queue it is nobody's; the row keeps the name for a result that comes late.
        worker=None if row.state == Status.QUEUED else row.worker,
        error=row.error,
        last_event=row.last_event,
        created_at=row.created_at,
        started_at=row.started_at,
        finished_at=row.finished_at,
        deadline_at=row.deadline_at,
        source=row.source,
        family=row.family,
        task=row.task,
        result=None if result is None else _to_stored_result(result),
        artifacts=artifacts,
        created_by=read_owner(row),
    )


def _to_stored_result(row: MeasurementResultRow) -> StoredResult:
    return StoredResult(
        attempt=row.attempt,
        environment=row.environment,
        peaks=row.peaks,
        instants=row.instants,
        probes=row.probes,
        step_time_s=row.step_time,
        prediction=row.prediction,
        extrapolated=row.extrapolated,
        transferable=row.transferable,
        steady_bytes=row.steady_bytes,
        notes=row.notes,
        calibration_id=row.calibration_id,
        readings=row.readings,
    )

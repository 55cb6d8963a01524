"""Statements about imported measurements.

Their rows were never jobs, and are written finished.
"""

from collections.abc import Collection
from uuid import UUID

from sqlalchemy import func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.records.measurements import NewImport
from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementResultRow
from service.jobs.contract import make_document
from service.jobs.states import Status

Job = MeasureJobRow
PHASE = "imported"


def read_imported_ids(session: Session, hashes: Collection[str]) -> dict[str, UUID]:
    """Return the measurement id of every stored hash."""
    rows = session.execute(select(Job.import_hash, Job.id).where(Job.import_hash.in_(hashes)))
    return {str(row.import_hash): row.id for row in rows}


def insert_import(session: Session, new: NewImport) -> UUID:
    """Store a measurement with its result and return its id.

    Where its hash is stored by now, return the id of that measurement.
    """
    statement = (
        insert(Job)
        .values(
            id=new.id,
            source="import",
            import_hash=new.import_hash,
            state=Status.SUCCEEDED.value,
            phase=PHASE,
            progress=1.0,
            request=make_document(new.request),
            key=new.key,
            device=new.request.device.value,
            gpu=new.request.gpu,
            model_name=new.request.model.name,
            model_revision=new.request.model.revision,
            deadline_at=func.now(),
            finished_at=func.now(),
            last_event=1,
        )
        .on_conflict_do_nothing(index_elements=["import_hash"])
        .returning(Job.id)
    )
    inserted_id = session.scalars(statement).one_or_none()
    if inserted_id is None:
        return read_imported_ids(session, [new.import_hash])[new.import_hash]
    session.add(_make_result_row(new))
    event = {"status": Status.SUCCEEDED.value, "attempt": 0, "reason": PHASE}
    session.add(MeasurementEventRow(job_id=new.id, seq=1, kind="status", data=event))
    session.flush()
    return inserted_id


def set_calibration(session: Session, measurement_id: UUID, calibration_id: UUID | None) -> None:
    """Set the calibration of a measurement, if it has one."""
    if calibration_id is not None:
        row = MeasurementResultRow
        session.execute(
            update(row).where(row.job_id == measurement_id).values(calibration_id=calibration_id)
        )


def _make_result_row(new: NewImport) -> MeasurementResultRow:
    return MeasurementResultRow(
        job_id=new.id,
        attempt=0,
        environment=dict(new.environment),
        peaks=dict(new.peaks),
        instants=[],
        probes=[],
        prediction=None if new.prediction is None else dict(new.prediction),
        readings=[dict(reading) for reading in new.readings],
        extrapolated=False,
        notes=list(new.notes),
    )

"""Statements about imported measurements, and who brought them.

Their rows were never jobs, and are written finished.
"""

from collections.abc import Collection, Sequence
from uuid import UUID

from sqlalchemy import ColumnElement, exists, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.owners import make_owner_columns
from service.db.records.claims import Claim, SourceCount
from service.db.records.measurements import NewImport
from service.db.tables.claims import ClaimRow
from service.db.tables.core import MeasureJobRow, MeasurementEventRow, MeasurementResultRow
from service.jobs.contract import make_document
from service.jobs.states import ClaimState, Status

Job = MeasureJobRow
PHASE = "imported"
MAX_SOURCES = 1000


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
            **make_owner_columns(new.created_by),
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


def insert_claim(session: Session, job_id: UUID, claim: Claim) -> None:
    """Store who brought a measurement."""
    session.add(
        ClaimRow(
            job_id=job_id,
            source=claim.source,
            source_key=claim.source_key,
            state=claim.state,
            reason=claim.reason,
            cluster=claim.cluster,
            decided_by=claim.decided_by,
            decided_at=None if claim.decided_by is None else func.now(),
        )
    )
    session.flush()


def read_claims(session: Session, job_ids: Collection[UUID]) -> dict[UUID, Claim]:
    """Return the claims of measurements; those without one are missing."""
    rows = session.scalars(select(ClaimRow).where(ClaimRow.job_id.in_(job_ids)))
    return {row.job_id: _to_claim(row) for row in rows}


def make_approved_condition() -> ColumnElement[bool]:
    """Return the condition that a measurement is not waiting for an operator."""
    return ~exists().where(ClaimRow.job_id == Job.id, ClaimRow.state != ClaimState.APPROVED)


def list_ids(
    session: Session,
    source: str,
    states: Collection[ClaimState],
    *,
    limit: int,
    cluster: str | None = None,
) -> Sequence[UUID]:
    """Return the oldest measurements of a source in some states."""
    statement = (
        select(ClaimRow.job_id)
        .where(*_brought_by(source, cluster), ClaimRow.state.in_(states))
        .order_by(ClaimRow.created_at, ClaimRow.job_id)
        .limit(limit)
    )
    return session.scalars(statement).all()


def decide(
    session: Session, job_ids: Collection[UUID], state: ClaimState, *, decided_by: str | None
) -> frozenset[UUID]:
    """Set the state of claims; return those that had another one."""
    statement = (
        update(ClaimRow)
        .where(
            ClaimRow.job_id.in_(job_ids),
            ClaimRow.state.not_in((state, ClaimState.WITHDRAWN)),
        )
        .values(state=state, decided_by=decided_by, decided_at=func.now())
        .returning(ClaimRow.job_id)
    )
    return frozenset(session.scalars(statement))


def exclude_source(
    session: Session, source: str, *, decided_by: str | None, cluster: str | None = None
) -> None:
    """Let nothing of a source teach from now on.

    With ``cluster``, nothing of what it brought of that one.
    """
    session.execute(
        update(ClaimRow)
        .where(*_brought_by(source, cluster), ClaimRow.state == ClaimState.APPROVED)
        .values(
            state=ClaimState.HELD,
            reason="its source was withdrawn",
            decided_by=decided_by,
            decided_at=func.now(),
        )
    )


def _brought_by(source: str, cluster: str | None) -> Sequence[ColumnElement[bool]]:
    """Return the conditions of a source's claims, of all or one cluster."""
    of_source = ClaimRow.source == source
    return (of_source,) if cluster is None else (of_source, ClaimRow.cluster == cluster)


def list_sources(session: Session) -> tuple[SourceCount, ...]:
    """Return every source with its measurements by state, newest first."""
    newest_at = func.max(ClaimRow.created_at)
    brought = ClaimRow.source, ClaimRow.source_key, ClaimRow.cluster
    counts = {
        state: func.count().filter(ClaimRow.state == state).label(state.value)
        for state in ClaimState
    }
    statement = (
        select(*brought, newest_at.label("newest_at"), *counts.values())
        .group_by(*brought)
        .order_by(newest_at.desc(), ClaimRow.source, ClaimRow.cluster)
        .limit(MAX_SOURCES)
    )
    return tuple(
        SourceCount(
            source=row.source,
            source_key=row.source_key,
            cluster=row.cluster,
            num_pending=row.pending,
            num_held=row.held,
            num_approved=row.approved,
            num_withdrawn=row.withdrawn,
            newest_at=row.newest_at,
        )
        for row in session.execute(statement)
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


def _to_claim(row: ClaimRow) -> Claim:
    return Claim(
        source=row.source,
        source_key=row.source_key,
        state=ClaimState(row.state),
        reason=row.reason,
        decided_by=row.decided_by,
        decided_at=row.decided_at,
        cluster=row.cluster,
    )

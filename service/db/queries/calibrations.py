"""Statements about calibrations; rows are added and never changed."""

from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy import Select, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session, aliased

from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.records.stored import NewCalibration, StoredCalibration
from service.db.tables.core import CalibrationRow

LIST = "calibrations"
LATE_COMMIT = timedelta(seconds=90)
"""Longer than any transaction lives (``idle_in_transaction_session_timeout`` and one statement)."""


def lock_key(session: Session, key: str) -> None:
    """Let one transaction at a time learn about ``key``.

    The newest calibration has then seen every earlier one.
    """
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(key, 0))))


def add_calibration(session: Session, new: NewCalibration) -> UUID:
    """Store a calibration and return its id.

    From the commit on it is the current one of its key and quantity.
    """
    calibration_id = uuid4()
    session.execute(
        insert(CalibrationRow).values(
            id=calibration_id,
            key=new.key,
            quantity=new.quantity,
            scope=new.scope,
            correction=new.correction,
            evidence=list(new.evidence),
            curve=new.curve,
            kind=new.kind,
            family=new.family,
            environment=new.environment,
        ),
    )
    return calibration_id


def read_calibration(session: Session, calibration_id: UUID) -> StoredCalibration | None:
    """Return one calibration."""
    row = session.get(CalibrationRow, calibration_id)
    return None if row is None else _to_stored_calibration(row)


def list_similar_calibrations(
    session: Session, *, quantity: str, kind: str, environment: str
) -> tuple[StoredCalibration, ...]:
    """Return current calibrations of one kind and environment.

    Their keys may learn from each other.
    """
    query = _select_latest().where(
        CalibrationRow.quantity == quantity,
        CalibrationRow.kind == kind,
        CalibrationRow.environment == environment,
    )
    return tuple(_to_stored_calibration(row) for row in session.scalars(query).all())


def find_newest_of_curve(session: Session, curve: str, quantity: str) -> StoredCalibration | None:
    """Return the newest calibration of a curve, in any environment.

    What was learnt of a named cluster's GPUs alone is not among them.
    """
    gpu = func.coalesce(CalibrationRow.scope["gpu"].as_string(), "")
    query = (
        select(CalibrationRow)
        .where(
            CalibrationRow.curve == curve,
            CalibrationRow.quantity == quantity,
            gpu.not_like("%@%"),
        )
        .order_by(CalibrationRow.created_at.desc(), CalibrationRow.id.desc())
        .limit(1)
    )
    row = session.scalars(query).first()
    return None if row is None else _to_stored_calibration(row)


def list_calibrations_since(
    session: Session, since: datetime | None
) -> tuple[StoredCalibration, ...]:
    """Return current calibrations of keys changed after ``since``.

    Some come twice, none is missed.
    """
    statement = _select_latest()
    if since is not None:
        # A row becomes visible at its commit but carries the time of its insert.
        statement = statement.where(CalibrationRow.created_at > since - LATE_COMMIT)
    return tuple(_to_stored_calibration(row) for row in session.scalars(statement).all())


def list_calibrations(
    session: Session, request: PageRequest, *, key: str | None = None
) -> Page[StoredCalibration]:
    """Return a page of all calibrations ever stored, newest first.

    With ``key``, only those of that key.
    """
    statement = select(CalibrationRow)
    if key is not None:
        statement = statement.where(CalibrationRow.key == key)
    statement = paginate(
        statement,
        request,
        list_name=LIST,
        created_at=CalibrationRow.created_at,
        row_id=CalibrationRow.id,
    )
    rows = session.scalars(statement).all()
    return make_page(
        rows,
        request,
        list_name=LIST,
        position=lambda row: (row.created_at, row.id),
        value=_to_stored_calibration,
    )


def _select_latest() -> Select[CalibrationRow]:
    rival = aliased(CalibrationRow)
    newest = (
        select(rival.id)
        .where(rival.key == CalibrationRow.key, rival.quantity == CalibrationRow.quantity)
        .order_by(rival.created_at.desc(), rival.id.desc())
        .limit(1)
        .scalar_subquery()
    )
    return select(CalibrationRow).where(CalibrationRow.id == newest)


def _to_stored_calibration(row: CalibrationRow) -> StoredCalibration:
    return StoredCalibration(
        id=row.id,
        key=row.key,
        quantity=row.quantity,
        scope=row.scope,
        correction=row.correction,
        evidence=tuple(row.evidence),
        created_at=row.created_at,
        curve=row.curve,
        kind=row.kind,
        family=row.family,
        environment=row.environment,
    )

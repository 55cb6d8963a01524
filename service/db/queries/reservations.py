"""Statements about reservations, timed by the database's clock."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.owners import make_owner_columns, read_owner
from service.db.pages import Page, PageRequest, make_page, paginate
from service.db.records.stored import SchedulerJob, StoredReservation
from service.db.tables.clusters import ClusterRow, ReservationRow
from service.planner.cluster.reservation import Reservation, Share

LIST = "reservations"


def read_clock(session: Session) -> datetime:
    """Return the database's time.

    It goes on while a transaction waits for a lock.
    """
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now


def list_live_by_cluster(
    session: Session, cluster_ids: Collection[UUID]
) -> dict[UUID, tuple[Reservation, ...]]:
    """Return live reservations of clusters, oldest first."""
    statement = select(ReservationRow).where(ReservationRow.cluster_id.in_(cluster_ids), _is_live())
    by_cluster: dict[UUID, tuple[Reservation, ...]] = {}
    for row in session.scalars(statement.order_by(ReservationRow.created_at, ReservationRow.id)):
        reservation = Reservation(
            holder=row.holder, shares=_to_shares(row), expires_at=row.expires_at
        )
        by_cluster[row.cluster_id] = (*by_cluster.get(row.cluster_id, ()), reservation)
    return by_cluster


def insert_reservation(session: Session, cluster_id: UUID, new: StoredReservation) -> None:
    """Store a reservation.

    The caller has locked the cluster and checked that the GPUs are free.
    """
    session.execute(
        insert(ReservationRow).values(
            id=new.id,
            cluster_id=cluster_id,
            holder=new.holder,
            shares=[asdict(share) for share in new.shares],
            created_at=new.created_at,
            expires_at=new.expires_at,
            **make_owner_columns(new.created_by),
        ),
    )


def read_reservation(
    session: Session, cluster: str, reservation_id: UUID
) -> StoredReservation | None:
    """Return a reservation, ended or not, until it is deleted."""
    statement = _select_with_cluster().where(
        ReservationRow.id == reservation_id, ClusterRow.name == cluster
    )
    row = session.execute(statement).one_or_none()
    return None if row is None else _to_stored_reservation(*row)


def list_reservations(
    session: Session, cluster: str, request: PageRequest
) -> Page[StoredReservation]:
    """Return a page of a cluster's live reservations, newest first."""
    live = _select_with_cluster().where(ClusterRow.name == cluster, _is_live())
    statement = paginate(
        live,
        request,
        list_name=LIST,
        created_at=ReservationRow.created_at,
        row_id=ReservationRow.id,
    )
    rows = session.execute(statement).all()
    return make_page(
        rows,
        request,
        list_name=LIST,
        position=lambda row: (row[0].created_at, row[0].id),
        value=lambda row: _to_stored_reservation(*row),
    )


def change(session: Session, changed: StoredReservation) -> bool:
    """Store the end and job of a reservation.

    Returns False if it has ended.
    """
    job = changed.job
    statement = (
        update(ReservationRow)
        .where(ReservationRow.id == changed.id, _is_live())
        .values(
            expires_at=changed.expires_at,
            scheduler=None if job is None else job.scheduler,
            scheduler_job=None if job is None else job.id,
        )
        .returning(ReservationRow.id)
    )
    return session.scalars(statement).one_or_none() is not None


def release(session: Session, reservation_id: UUID) -> bool:
    """End a reservation now; return False if it has ended."""
    ended = update(ReservationRow).where(ReservationRow.id == reservation_id, _is_live())
    statement = ended.values(released_at=func.clock_timestamp()).returning(ReservationRow.id)
    return session.scalars(statement).one_or_none() is not None


def delete_ended(session: Session, *, before: timedelta) -> int:
    """Delete reservations ended longer ago than ``before``; return their number."""
    # LEAST ignores NULL: what was not released ended when it expired.
    ended_at = func.least(ReservationRow.expires_at, ReservationRow.released_at)
    statement = (
        delete(ReservationRow).where(ended_at <= func.now() - before).returning(ReservationRow.id)
    )
    return len(session.scalars(statement).all())


def _is_live() -> ColumnElement[bool]:
    return and_(
        ReservationRow.released_at.is_(None), ReservationRow.expires_at > func.clock_timestamp()
    )


def _select_with_cluster() -> Any:  # noqa: ANN401 - SQLAlchemy has no name for a select of two that pages can narrow
    return select(ReservationRow, ClusterRow.name).join(
        ClusterRow, ClusterRow.id == ReservationRow.cluster_id
    )


def _to_stored_reservation(row: ReservationRow, cluster: str) -> StoredReservation:
    return StoredReservation(
        id=row.id,
        cluster=cluster,
        holder=row.holder,
        shares=_to_shares(row),
        created_at=row.created_at,
        expires_at=row.expires_at,
        released_at=row.released_at,
        job=_to_job(row),
        created_by=read_owner(row),
    )


def _to_job(row: ReservationRow) -> SchedulerJob | None:
    if row.scheduler is None or row.scheduler_job is None:
        return None
    return SchedulerJob(scheduler=row.scheduler, id=row.scheduler_job)


def _to_shares(row: ReservationRow) -> tuple[Share, ...]:
    return tuple(_to_share(raw) for raw in row.shares)


def _to_share(raw: dict[str, Any]) -> Share:
    indices = raw["gpu_indices"]
    return Share(**raw | {"gpu_indices": None if indices is None else tuple(indices)})

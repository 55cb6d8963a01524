"""Every statement about reservations; they live by the database's clock."""

from collections.abc import Collection
from dataclasses import asdict
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import ColumnElement, and_, delete, func, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from service.db.pages import Page, PageRequest, after, page_of
from service.db.records.stored import StoredReservation
from service.db.tables.clusters import ClusterRow, ReservationRow
from service.planner.cluster.reservation import Reservation, Share

LIST = "reservations"


def read_clock(session: Session) -> datetime:
    """Return the database's time, which goes on while a transaction waits for a lock."""
    now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
    return now


def live_by_cluster(session: Session, cluster_ids: Collection[UUID]) -> dict[UUID, tuple[Reservation, ...]]:
    """Return what is promised now on each of some clusters, the oldest promise first."""
    statement = select(ReservationRow).where(ReservationRow.cluster_id.in_(cluster_ids), _is_live())
    found: dict[UUID, tuple[Reservation, ...]] = {}
    for row in session.scalars(statement.order_by(ReservationRow.created_at, ReservationRow.id)):
        reservation = Reservation(holder=row.holder, shares=_shares(row), expires_at=row.expires_at)
        found[row.cluster_id] = (*found.get(row.cluster_id, ()), reservation)
    return found


def insert_reservation(session: Session, cluster_id: UUID, new: StoredReservation) -> None:
    """Store a promise; the caller has locked the cluster and seen that it can be kept."""
    session.execute(
        insert(ReservationRow).values(
            id=new.id,
            cluster_id=cluster_id,
            holder=new.holder,
            shares=[asdict(share) for share in new.shares],
            created_at=new.created_at,
            expires_at=new.expires_at,
        )
    )


def read_reservation(session: Session, cluster: str, reservation_id: UUID) -> StoredReservation | None:
    """Return a reservation, ended or not, until it is forgotten."""
    statement = _with_cluster().where(ReservationRow.id == reservation_id, ClusterRow.name == cluster)
    found = session.execute(statement).one_or_none()
    return None if found is None else _value(*found)


def page_of_reservations(session: Session, cluster: str, request: PageRequest) -> Page[StoredReservation]:
    """Return a page of what is promised now on a cluster, newest first."""
    live = _with_cluster().where(ClusterRow.name == cluster, _is_live())
    statement = after(live, request, list_name=LIST, created_at=ReservationRow.created_at, row_id=ReservationRow.id)
    rows = session.execute(statement).all()
    return page_of(
        rows, request, list_name=LIST, position=lambda row: (row[0].created_at, row[0].id), value=lambda row: _value(*row)
    )


def release(session: Session, reservation_id: UUID) -> bool:
    """End a reservation now; return False when it had ended before."""
    ended = update(ReservationRow).where(ReservationRow.id == reservation_id, _is_live())
    statement = ended.values(released_at=func.clock_timestamp()).returning(ReservationRow.id)
    return session.scalars(statement).one_or_none() is not None


def delete_ended(session: Session, *, before: timedelta) -> int:
    """Forget reservations that ended longer ago than ``before``; return how many."""
    # LEAST ignores NULL: what was not released ended when it expired.
    ended_at = func.least(ReservationRow.expires_at, ReservationRow.released_at)
    statement = delete(ReservationRow).where(ended_at <= func.now() - before).returning(ReservationRow.id)
    return len(session.scalars(statement).all())


def _is_live() -> ColumnElement[bool]:
    return and_(ReservationRow.released_at.is_(None), ReservationRow.expires_at > func.clock_timestamp())


def _with_cluster() -> Any:  # noqa: ANN401  # SQLAlchemy has no name for a select of two that pages can narrow
    return select(ReservationRow, ClusterRow.name).join(ClusterRow, ClusterRow.id == ReservationRow.cluster_id)


def _value(row: ReservationRow, cluster: str) -> StoredReservation:
    return StoredReservation(
        id=row.id,
        cluster=cluster,
        holder=row.holder,
        shares=_shares(row),
        created_at=row.created_at,
        expires_at=row.expires_at,
        released_at=row.released_at,
    )


def _shares(row: ReservationRow) -> tuple[Share, ...]:
    return tuple(_share(raw) for raw in row.shares)


def _share(raw: dict[str, Any]) -> Share:
    indices = raw["gpu_indices"]
    return Share(**raw | {"gpu_indices": None if indices is None else tuple(indices)})

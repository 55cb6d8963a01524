"""Promise GPUs of a cluster for a time: one asker at a time per cluster, so that none is promised twice."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from service.base.errors import (
    ClusterNotFoundError,
    GpusNotFreeError,
    InvalidRequestError,
    ReservationEndedError,
    ReservationNotFoundError,
)
from service.db.queries import clusters as cluster_queries
from service.db.queries import reservations as queries
from service.db.session import transaction
from service.planner.cluster.grants import Lack, grant
from service.planner.cluster.placement import Supply, clusters_as_supply
from service.planner.cluster.reservation import Share
from service.usecases.idempotency import TTL, RequestKey, reservation_for_key
from service.usecases.preconditions import check_if_match
from service.usecases.stored import Page, PageRequest, Sessions, StoredCluster, StoredReservation

MAX_LACKS = 20
"""Places that a refusal lists."""
LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What to promise to whom: until ``expires_at``, or for ``expires_in`` from now; ``field`` is where the request says it."""

    holder: str
    gpus: tuple[Share, ...]
    field: str = "gpus"
    expires_in: timedelta | None = None
    expires_at: datetime | None = None


def reserve(sessions: Sessions, cluster: str, wanted: Wanted, *, idempotency: RequestKey | None = None) -> StoredReservation:
    """Promise all that is wanted, or nothing; the same request again gets the promise that it made before."""
    new_id = uuid4()
    with transaction(sessions) as session:
        # Keys before clusters, in every transaction: two that wait for each other in turn would never end.
        reservation_id = new_id if idempotency is None else reservation_for_key(session, idempotency, new_id)
        if reservation_id != new_id:
            return _repeated(session, cluster, reservation_id)
        stored = _cluster(session, cluster, lock=True)
        now = queries.read_clock(session)
        promise = StoredReservation(
            id=new_id,
            cluster=cluster,
            holder=wanted.holder,
            shares=_granted(stored, wanted),
            created_at=now,
            expires_at=_end(wanted, now),
        )
        queries.insert_reservation(session, stored.id, promise)
    return promise


def read(sessions: Sessions, cluster: str, reservation_id: UUID) -> StoredReservation:
    """Return a reservation that lives."""
    with transaction(sessions) as session:
        _cluster(session, cluster)
        return _living(session, cluster, reservation_id)


def list_page(sessions: Sessions, cluster: str, request: PageRequest) -> Page[StoredReservation]:
    """Return a page of what is promised now, newest first."""
    with transaction(sessions) as session:
        _cluster(session, cluster)
        return queries.page_of_reservations(session, cluster, request)


def release(sessions: Sessions, cluster: str, reservation_id: UUID, *, if_match: str | None) -> None:
    """End a reservation that the caller has seen: its GPUs are free again."""
    with transaction(sessions) as session:
        _cluster(session, cluster)
        stored = _living(session, cluster, reservation_id)
        check_if_match(if_match, stored.etag)
        if not queries.release(session, reservation_id):
            raise _not_found(cluster, reservation_id)


def supply_of(sessions: Sessions, cluster: str) -> Supply:
    """Return what a cluster can give now, reservations held against it."""
    with transaction(sessions) as session:
        stored = _cluster(session, cluster)
    return clusters_as_supply(stored.inventory, stored.reservations)


def forget_ended(sessions: Sessions) -> int:
    """Delete reservations that ended so long ago that no repeated request can mean them; return how many."""
    with transaction(sessions) as session:
        return queries.delete_ended(session, before=TTL)


def _granted(stored: StoredCluster, wanted: Wanted) -> tuple[Share, ...]:
    supply = clusters_as_supply(stored.inventory, stored.reservations)
    shares, lacks = grant(supply, wanted.gpus, field=wanted.field)
    if lacks:
        message = "; ".join(lack.reason for lack in lacks[:MAX_LACKS]) + "; nothing was reserved"
        raise GpusNotFreeError(message, places=[_fact(lack) for lack in lacks[:MAX_LACKS]])
    return shares


def _fact(lack: Lack) -> dict[str, object]:
    return {
        "pool": lack.pool,
        "node": lack.node,
        "mig_profile": lack.mig_profile,
        "wanted_gpus": lack.wanted_gpus,
        "free_gpus": lack.free_gpus,
    }


def _end(wanted: Wanted, now: datetime) -> datetime:
    if wanted.expires_in is not None:
        return now + wanted.expires_in
    end = now if wanted.expires_at is None else wanted.expires_at
    if not now < end <= now + LONGEST:
        message = f"expires_at is {end.isoformat()}; it must lie within {LONGEST.days} days after now, {now.isoformat()}"
        raise InvalidRequestError(message, errors=[{"field": "expires_at", "message": message}])
    return end


def _repeated(session: Session, cluster: str, reservation_id: UUID) -> StoredReservation:
    stored = queries.read_reservation(session, cluster, reservation_id)
    if stored is None or stored.released_at is not None or stored.expires_at <= queries.read_clock(session):
        message = f"reservation {reservation_id}, which this Idempotency-Key made, has ended; use a new key"
        raise ReservationEndedError(message, reservation_id=str(reservation_id))
    return stored


def _living(session: Session, cluster: str, reservation_id: UUID) -> StoredReservation:
    stored = queries.read_reservation(session, cluster, reservation_id)
    if stored is None:
        raise _not_found(cluster, reservation_id)
    if stored.released_at is not None:
        message = f"reservation {reservation_id} was released at {stored.released_at.isoformat(timespec='seconds')}"
        raise ReservationNotFoundError(message)
    if stored.expires_at <= queries.read_clock(session):
        message = f"reservation {reservation_id} expired at {stored.expires_at.isoformat(timespec='seconds')}"
        raise ReservationNotFoundError(message)
    return stored


def _cluster(session: Session, name: str, *, lock: bool = False) -> StoredCluster:
    stored = cluster_queries.read_cluster(session, name, lock=lock)
    if stored is None:
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message, name=name)
    return stored


def _not_found(cluster: str, reservation_id: UUID) -> ReservationNotFoundError:
    message = f"cluster {cluster!r} has no reservation {reservation_id}"
    return ReservationNotFoundError(message)

"""Reservations of a cluster's GPUs for a time.

One transaction at a time per cluster, so that no GPU is promised twice.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from service.access.keys import Principal
from service.access.owners import make_owner
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
from service.planner.cluster.grants import Shortage, grant
from service.planner.cluster.placement import Supply, build_supply
from service.planner.cluster.reservation import Share
from service.usecases.access.owners import check_owner
from service.usecases.idempotency import TTL, RequestKey, bind_reservation_key
from service.usecases.preconditions import check_if_match
from service.usecases.stored import (
    Page,
    PageRequest,
    SchedulerJob,
    Sessions,
    StoredCluster,
    StoredReservation,
)

MAX_LACKS = 20
"""Places that a refusal lists."""
LONGEST = timedelta(days=366)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewReservation:
    """GPUs to reserve for a holder until a time.

    It ends at ``expires_at``, or ``expires_in`` from now. ``field`` is where the request names the
    GPUs.
    """

    holder: str
    gpus: tuple[Share, ...]
    field: str = "gpus"
    expires_in: timedelta | None = None
    expires_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservationChange:
    """Another end of a reservation, or its job.

    None leaves either as it is.
    """

    expires_in: timedelta | None = None
    expires_at: datetime | None = None
    job: SchedulerJob | None = None


def reserve(
    sessions: Sessions,
    cluster: str,
    new: NewReservation,
    *,
    idempotency: RequestKey | None = None,
    caller: Principal | None = None,
) -> StoredReservation:
    """Reserve all requested GPUs, or none.

    The same request again gets the reservation that it made before. It belongs to ``caller``.
    """
    new_id = uuid4()
    with transaction(sessions) as session:
        # Keys before clusters, in every transaction: two that wait for each other in turn would
        # never end.
        reservation_id = (
            new_id if idempotency is None else bind_reservation_key(session, idempotency, new_id)
        )
        if reservation_id != new_id:
            return _read_repeated(session, cluster, reservation_id)
        stored = _read_cluster(session, cluster, lock=True)
        now = queries.read_clock(session)
        reservation = StoredReservation(
            id=new_id,
            cluster=cluster,
            holder=new.holder,
            shares=_grant_shares(stored, new),
            created_at=now,
            expires_at=_compute_expiry(new.expires_in, new.expires_at, now),
            created_by=None if caller is None else make_owner(caller),
        )
        queries.insert_reservation(session, stored.id, reservation)
    return reservation


def read(sessions: Sessions, cluster: str, reservation_id: UUID) -> StoredReservation:
    """Return a live reservation."""
    with transaction(sessions) as session:
        _read_cluster(session, cluster)
        return _read_live(session, cluster, reservation_id)


def list_page(sessions: Sessions, cluster: str, request: PageRequest) -> Page[StoredReservation]:
    """Return a page of live reservations, newest first."""
    with transaction(sessions) as session:
        _read_cluster(session, cluster)
        return queries.list_reservations(session, cluster, request)


def change(
    sessions: Sessions,
    cluster: str,
    reservation_id: UUID,
    changed: ReservationChange,
    *,
    if_match: str | None,
    caller: Principal | None = None,
) -> StoredReservation:
    """Give a live reservation another end, or a job.

    Its ETag must be the one that the caller has seen, and it must be his.
    """
    with transaction(sessions) as session:
        # Else a promise of the same GPUs could be made just as this one would have ended.
        _read_cluster(session, cluster, lock=True)
        stored = _read_owned(session, cluster, reservation_id, caller)
        check_if_match(if_match, stored.etag)
        new = stored if changed.job is None else replace(stored, job=changed.job)
        if changed.expires_in is not None or changed.expires_at is not None:
            now = queries.read_clock(session)
            end = _compute_expiry(changed.expires_in, changed.expires_at, now)
            new = replace(new, expires_at=end)
        if not queries.change(session, new):
            raise _make_not_found_error(cluster, reservation_id)
    return new


def release(
    sessions: Sessions,
    cluster: str,
    reservation_id: UUID,
    *,
    if_match: str | None,
    caller: Principal | None = None,
) -> None:
    """End a reservation of the caller whose ETag he has seen.

    Its GPUs are free again.
    """
    with transaction(sessions) as session:
        _read_cluster(session, cluster)
        stored = _read_owned(session, cluster, reservation_id, caller)
        check_if_match(if_match, stored.etag)
        if not queries.release(session, reservation_id):
            raise _make_not_found_error(cluster, reservation_id)


def read_supply(sessions: Sessions, cluster: str) -> Supply:
    """Return the free supply of a cluster, less its reservations."""
    stored = read_snapshot(sessions, cluster)
    return build_supply(stored.inventory, stored.reservations)


def read_snapshot(sessions: Sessions, cluster: str) -> StoredCluster:
    """Return a cluster as it was at one moment."""
    return fetch_snapshot(sessions, cluster)()


def fetch_snapshot(sessions: Sessions, cluster: str) -> Callable[[], StoredCluster]:
    """Return what builds a cluster as it was at one moment.

    It asks the database no more. Its version never stands beside the nodes or the reservations of
    another.
    """
    with transaction(sessions) as session:
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})
        build = cluster_queries.fetch_cluster(session, cluster)
    if build is None:
        raise _make_cluster_error(cluster)
    return build


def forget_ended(sessions: Sessions) -> int:
    """Delete long-ended reservations and return their number.

    They ended so long ago that no repeated request can mean them.
    """
    with transaction(sessions) as session:
        return queries.delete_ended(session, before=TTL)


def _grant_shares(stored: StoredCluster, new: NewReservation) -> tuple[Share, ...]:
    supply = build_supply(stored.inventory, stored.reservations)
    shares, lacks = grant(supply, new.gpus, field=new.field)
    if lacks:
        message = "; ".join(lack.reason for lack in lacks[:MAX_LACKS]) + "; nothing was reserved"
        raise GpusNotFreeError(message, places=[_describe_lack(lack) for lack in lacks[:MAX_LACKS]])
    return shares


def _describe_lack(lack: Shortage) -> dict[str, object]:
    return {
        "pool": lack.pool,
        "node": lack.node,
        "mig_profile": lack.mig_profile,
        "wanted_gpus": lack.wanted_gpus,
        "free_gpus": lack.free_gpus,
    }


def _compute_expiry(
    expires_in: timedelta | None, expires_at: datetime | None, now: datetime
) -> datetime:
    if expires_in is not None:
        return now + expires_in
    end = now if expires_at is None else expires_at
    if not now < end <= now + LONGEST:
        message = (
            f"expires_at is {end.isoformat()}; it must lie within {LONGEST.days} days after now, "
            f"{now.isoformat()}"
        )
        raise InvalidRequestError(message, errors=[{"field": "expires_at", "message": message}])
    return end


def _read_repeated(session: Session, cluster: str, reservation_id: UUID) -> StoredReservation:
    stored = queries.read_reservation(session, cluster, reservation_id)
    if (
        stored is None
        or stored.released_at is not None
        or stored.expires_at <= queries.read_clock(session)
    ):
        message = (
            f"reservation {reservation_id}, which this Idempotency-Key made, has ended; use a new "
            "key"
        )
        raise ReservationEndedError(message, reservation_id=str(reservation_id))
    return stored


def _read_live(session: Session, cluster: str, reservation_id: UUID) -> StoredReservation:
    stored = queries.read_reservation(session, cluster, reservation_id)
    if stored is None:
        raise _make_not_found_error(cluster, reservation_id)
    if stored.released_at is not None:
        message = (
            f"reservation {reservation_id} was released at "
            f"{stored.released_at.isoformat(timespec='seconds')}"
        )
        raise ReservationNotFoundError(message)
    if stored.expires_at <= queries.read_clock(session):
        message = (
            f"reservation {reservation_id} expired at "
            f"{stored.expires_at.isoformat(timespec='seconds')}"
        )
        raise ReservationNotFoundError(message)
    return stored


def _read_owned(
    session: Session, cluster: str, reservation_id: UUID, caller: Principal | None
) -> StoredReservation:
    stored = _read_live(session, cluster, reservation_id)
    check_owner(caller, stored.created_by, what=f"reservation {reservation_id}")
    return stored


def _read_cluster(session: Session, name: str, *, lock: bool = False) -> StoredCluster:
    stored = cluster_queries.read_cluster(session, name, lock=lock)
    if stored is None:
        raise _make_cluster_error(name)
    return stored


def _make_cluster_error(name: str) -> ClusterNotFoundError:
    message = f"there is no cluster {name!r}"
    return ClusterNotFoundError(message, name=name)


def _make_not_found_error(cluster: str, reservation_id: UUID) -> ReservationNotFoundError:
    message = f"cluster {cluster!r} has no reservation {reservation_id}"
    return ReservationNotFoundError(message)

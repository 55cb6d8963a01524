"""Store, read, replace and remove cluster inventories."""

from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import ClusterExistsError, ClusterNotFoundError, ClusterReservedError
from service.db.pages import Page, PageRequest
from service.db.queries import clusters as queries
from service.db.queries.reservations import list_reservations
from service.db.records.stored import StoredCluster
from service.db.session import transaction
from service.planner.cluster.inventory import ClusterInventory
from service.usecases.preconditions import check_if_match

MAX_SHOWN = 20
"""Reservations that a refusal lists."""


def create(
    sessions: sessionmaker[Session], *, name: str, inventory: ClusterInventory
) -> StoredCluster:
    """Store a new cluster; its name must be free."""
    with transaction(sessions) as session:
        if not queries.create_cluster(session, name, inventory):
            message = f"there is a cluster {name!r}; replace it with PUT, or choose another name"
            raise ClusterExistsError(message, name=name)
        return _read(session, name)


def read(sessions: sessionmaker[Session], name: str) -> StoredCluster:
    """Return a cluster as it stands."""
    with transaction(sessions) as session:
        return _read(session, name)


def replace(
    sessions: sessionmaker[Session], name: str, *, inventory: ClusterInventory, if_match: str | None
) -> StoredCluster:
    """Replace the inventory whose ETag the caller has seen."""
    with transaction(sessions) as session:
        stored = _read(session, name, lock=True)
        check_if_match(if_match, stored.etag)
        queries.replace_inventory(session, stored.id, inventory)
        return _read(session, name)


def delete(
    sessions: sessionmaker[Session],
    name: str,
    *,
    if_match: str | None,
    ends_reservations: bool = False,
) -> None:
    """Remove the cluster whose ETag the caller has seen.

    Reservations on it end only with ``ends_reservations``; otherwise they refuse the removal.
    """
    with transaction(sessions) as session:
        stored = _read(session, name, lock=True)
        check_if_match(if_match, stored.etag)
        if stored.reservations and not ends_reservations:
            raise _make_reserved_error(session, stored)
        queries.delete_cluster(session, stored.id)


def list_page(sessions: sessionmaker[Session], request: PageRequest) -> Page[StoredCluster]:
    """Return a page of clusters, newest first."""
    with transaction(sessions) as session:
        return queries.list_clusters(session, request)


def _make_reserved_error(session: Session, stored: StoredCluster) -> ClusterReservedError:
    """Return the refusal to remove a reserved cluster.

    It lists the reservations, newest first.
    """
    reservations = list_reservations(session, stored.name, PageRequest(limit=MAX_SHOWN)).items
    holders = ", ".join(
        f"{reservation.holder} until {reservation.expires_at.isoformat(timespec='seconds')}"
        for reservation in reservations
    )
    num_unlisted = len(stored.reservations) - len(reservations)
    more = f" and {num_unlisted} more" if num_unlisted > 0 else ""
    message = (
        f"GPUs of cluster {stored.name!r} are reserved: {holders}{more}; release them, wait for "
        "their end, or end them with the cluster: end_reservations=true"
    )
    facts = [
        {
            "id": str(reservation.id),
            "holder": reservation.holder,
            "expires_at": reservation.expires_at.isoformat(),
        }
        for reservation in reservations
    ]
    return ClusterReservedError(message, reservations=facts)


def _read(session: Session, name: str, *, lock: bool = False) -> StoredCluster:
    stored = queries.read_cluster(session, name, lock=lock)
    if stored is None:
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message, name=name)
    return stored

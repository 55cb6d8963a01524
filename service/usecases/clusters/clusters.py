"""Store, read, replace and remove cluster inventories."""

from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import ClusterExistsError, ClusterNotFoundError, ClusterReservedError
from service.db.pages import Page, PageRequest
from service.db.queries import clusters as queries
from service.db.queries.reservations import page_of_reservations
from service.db.records.stored import StoredCluster
from service.db.session import transaction
from service.planner.cluster.inventory import ClusterInventory
from service.usecases.preconditions import check_if_match

MAX_SHOWN = 20
"""Reservations that a refusal lists."""


def create(sessions: sessionmaker[Session], *, name: str, inventory: ClusterInventory) -> StoredCluster:
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


def replace(sessions: sessionmaker[Session], name: str, *, inventory: ClusterInventory, if_match: str | None) -> StoredCluster:
    """Put another inventory in the place of the one whose ETag the caller has seen."""
    with transaction(sessions) as session:
        stored = _read(session, name, lock=True)
        check_if_match(if_match, stored.etag)
        queries.replace_inventory(session, stored.id, inventory)
        return _read(session, name)


def delete(sessions: sessionmaker[Session], name: str, *, if_match: str | None, ends_reservations: bool = False) -> None:
    """Remove the cluster whose ETag the caller has seen; what is reserved on it ends only where the caller says so."""
    with transaction(sessions) as session:
        stored = _read(session, name, lock=True)
        check_if_match(if_match, stored.etag)
        if stored.reservations and not ends_reservations:
            raise _reserved(session, stored)
        queries.delete_cluster(session, stored.id)


def list_page(sessions: sessionmaker[Session], request: PageRequest) -> Page[StoredCluster]:
    """Return a page of clusters, newest first."""
    with transaction(sessions) as session:
        return queries.page_of_clusters(session, request)


def _reserved(session: Session, stored: StoredCluster) -> ClusterReservedError:
    """Return the refusal to remove a cluster, with what is promised on it, the newest first."""
    shown = page_of_reservations(session, stored.name, PageRequest(limit=MAX_SHOWN)).items
    named = ", ".join(f"{one.holder} until {one.expires_at.isoformat(timespec='seconds')}" for one in shown)
    left = len(stored.reservations) - len(shown)
    more = f" and {left} more" if left > 0 else ""
    message = (
        f"GPUs of cluster {stored.name!r} are reserved: {named}{more}; release them, wait for their end, or end them with the "
        "cluster: end_reservations=true"
    )
    facts = [{"id": str(one.id), "holder": one.holder, "expires_at": one.expires_at.isoformat()} for one in shown]
    return ClusterReservedError(message, reservations=facts)


def _read(session: Session, name: str, *, lock: bool = False) -> StoredCluster:
    stored = queries.read_cluster(session, name, lock=lock)
    if stored is None:
        message = f"there is no cluster {name!r}"
        raise ClusterNotFoundError(message, name=name)
    return stored

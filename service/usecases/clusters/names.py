"""Names of stored clusters that questions name.

A question needs the name alone, and no database where it was named a moment before.
"""

from collections.abc import Callable

from service.base.errors import InvalidRequestError
from service.db.queries.clusters import read_etag
from service.db.session import transaction
from service.usecases.stored import Sessions


class ClusterNames:
    """Names that were looked up since the last refresh."""

    def __init__(self, has: Callable[[str], bool]) -> None:
        """Start empty; ``has`` returns whether a cluster is stored."""
        self._has = has
        self._names: frozenset[str] = frozenset()

    def refresh(self) -> None:
        """Look each name up again when it is named the next time."""
        self._names = frozenset()

    def needs_lookup(self, name: str) -> bool:
        """Return whether the database is to be asked about a name.

        An empty one is no cluster's.
        """
        return bool(name) and name not in self._names

    def require(self, name: str) -> None:
        """Refuse a name under which no cluster is stored."""
        if not self.needs_lookup(name):
            return
        if not self._has(name):
            message = (
                f"there is no cluster {name!r}; GET /v1/clusters lists those that are stored, and "
                "without a cluster the answer is as for such GPUs anywhere"
            )
            raise InvalidRequestError(message, errors=[{"field": "cluster", "message": message}])
        self._names |= {name}


def is_cluster_stored(sessions: Sessions, name: str) -> bool:
    """Return whether a cluster is stored under a name."""
    with transaction(sessions) as session:
        return read_etag(session, name) is not None

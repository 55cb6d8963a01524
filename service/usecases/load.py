"""How the queue does: what waits for how long, and how often a worker was lost."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from service.db.queries import measurements as queries
from service.db.session import transaction
from service.usecases.access import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Seconds that the first in each device's queue has waited, and leases that were lost since the beginning."""

    oldest_s: Mapping[str, float] = field(default_factory=dict)
    lost_leases: int = 0


def read_load(sessions: Sessions) -> Load:
    """Read it as it is now; an empty queue has no entry."""
    with transaction(sessions) as session:
        return Load(oldest_s=queries.oldest_queued_s(session), lost_leases=queries.count_lost_leases(session))

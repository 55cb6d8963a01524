"""How the queue does: what waits for how long at which priority, what was tried how often, and whose lease is over."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.db.queries import census as queries
from service.db.records.stored import JobCount, QueueCount
from service.db.session import transaction
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Jobs by what they have in common, what waits, and running jobs that a reconcile loop should have taken back."""

    jobs: tuple[JobCount, ...] = ()
    queue: tuple[QueueCount, ...] = ()
    expired_leases: int = 0

    @property
    def lost_leases(self) -> int:
        """Return how many attempts ended because their worker was not heard of."""
        return sum(one.lost_leases for one in self.jobs)

    @property
    def oldest_s(self) -> Mapping[str, float]:
        """Return the seconds that the first in each device's queue has waited; an empty queue has no entry."""
        oldest: dict[str, float] = {}
        for one in self.queue:
            oldest[one.device] = max(one.oldest_s, oldest.get(one.device, 0.0))
        return oldest


def read_load(sessions: Sessions) -> Load:
    """Read it as it is now."""
    with transaction(sessions) as session:
        return Load(
            jobs=queries.count_jobs(session),
            queue=queries.count_queue(session),
            expired_leases=queries.count_expired_leases(session),
        )

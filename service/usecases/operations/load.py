"""Queue load: waiting times, attempts and expired leases."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.db.queries import metrics as queries
from service.db.records.stored import JobCount, QueueCount
from service.db.session import transaction
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Job counts, queue counts and expired leases.

    Expired leases are running jobs that a reconcile loop should have taken back.
    """

    jobs: tuple[JobCount, ...] = ()
    queue: tuple[QueueCount, ...] = ()
    expired_leases: int = 0

    @property
    def lost_leases(self) -> int:
        """Return how many attempts ended because their worker was not heard of."""
        return sum(job.lost_leases for job in self.jobs)

    @property
    def oldest_s(self) -> Mapping[str, float]:
        """Return the longest wait in seconds in each device's queue.

        An empty queue has no entry.
        """
        oldest: dict[str, float] = {}
        for entry in self.queue:
            oldest[entry.device] = max(entry.oldest_s, oldest.get(entry.device, 0.0))
        return oldest


def read_load(sessions: Sessions) -> Load:
    """Read the load as it is now."""
    with transaction(sessions) as session:
        return Load(
            jobs=queries.count_jobs(session),
            queue=queries.count_queue(session),
            expired_leases=queries.count_expired_leases(session),
        )

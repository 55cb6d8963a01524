"""Everything that is counted when somebody scrapes, kept for a moment so that scrapers cannot wear the database out."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from service.errors import ServiceError
from service.usecases.access import Sessions
from service.usecases.accuracy import Learnt, learnt
from service.usecases.load import Load, read_load
from service.usecases.workers import SeenWorker, list_workers

KEPT_S = 1.0
SHARE = 0.1
"""Where counting takes long, it is done no more than this share of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """What the database tells: the queue, the workers, and what was learnt."""

    load: Load = field(default_factory=Load)
    workers: tuple[SeenWorker, ...] = ()
    learnt: Learnt = field(default_factory=Learnt)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One look at the servers: ``census`` is None while the database is away, ``redis_up`` where there is no Redis."""

    census: Census | None
    redis_up: bool | None
    seconds: float = 0.0


NOTHING_READ = Reading(census=None, redis_up=None)
"""What is known before anybody looked."""


def take_census(sessions: Sessions, *, gone_after_s: float) -> Census | None:
    """Count; None while the database is away or at another schema."""
    try:
        return Census(
            load=read_load(sessions),
            workers=tuple(list_workers(sessions, gone_after_s=gone_after_s)),
            learnt=learnt(sessions),
        )
    except ServiceError:
        return None


class Registrar:
    """Looks at most once a second, however many ask; who asks meanwhile waits for the look that is under way."""

    def __init__(
        self,
        take: Callable[[], Census | None],
        *,
        ping_redis: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; the first question looks."""
        self._take = take
        self._ping = ping_redis
        self._clock = clock
        self._lock = threading.Lock()
        self._found: Reading | None = None
        self._until = 0.0

    def read(self) -> Reading:
        """Return what was counted at most a second ago, or ten times as long ago as counting took."""
        with self._lock:
            if self._found is None or self._clock() >= self._until:
                self._found = self._look()
                self._until = self._clock() + max(KEPT_S, self._found.seconds / SHARE)
            return self._found

    def _look(self) -> Reading:
        began = self._clock()
        census = self._take()
        redis_up = None if self._ping is None else self._ping()
        return Reading(census=census, redis_up=redis_up, seconds=self._clock() - began)

"""Everything that is counted when somebody scrapes, kept for a moment so that scrapers cannot wear the database out."""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from service.base.errors import ServiceError
from service.usecases.jobs.workers import SeenWorker, list_workers
from service.usecases.learning.accuracy import Learnt
from service.usecases.operations.load import Load, read_load
from service.usecases.stored import Sessions

KEPT_S = 1.0
KEPT_LONG_S = 15.0
"""Of what is learnt: errors change with each measurement, which takes longer than this."""
PATIENCE_S = 0.1
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


def take_census(sessions: Sessions, *, gone_after_s: float, learnt: Callable[[], Learnt]) -> Census | None:
    """Count; None while the database is away or at another schema."""
    try:
        return Census(
            load=read_load(sessions),
            workers=tuple(list_workers(sessions, gone_after_s=gone_after_s)),
            learnt=learnt(),
        )
    except ServiceError:
        return None


class Slow:
    """What was learnt, read beside the scrapes: errors of a hundred thousand measurements take seconds to sort.

    A scrape waits for ``PATIENCE_S`` and is then told what was read before.
    """

    def __init__(self, read: Callable[[], Learnt], *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; the first question reads."""
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: threading.Thread | None = None
        self._found = Learnt()
        self._until = -math.inf

    def __call__(self) -> Learnt:
        """Return what was read last."""
        with self._lock:
            if (self._reading is None or not self._reading.is_alive()) and self._clock() >= self._until:
                self._reading = threading.Thread(target=self._work, name="census", daemon=True)
                self._reading.start()
            reading = self._reading
        if reading is not None:
            reading.join(PATIENCE_S)
        return self._found

    def _work(self) -> None:
        began = self._clock()
        # While the database is away, the rest of the census says so.
        with suppress(ServiceError):
            self._found = self._read()
        ended = self._clock()
        self._until = ended + max(KEPT_LONG_S, (ended - began) / SHARE)


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

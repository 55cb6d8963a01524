"""Metrics read from the database on scrape, cached for a moment.

The cache keeps scrapers from wearing the database out.
"""

import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from service.base.errors import ServiceError
from service.usecases.jobs.workers import WorkerSummary, list_workers
from service.usecases.learning.accuracy import LearningStatistics
from service.usecases.operations.load import Load, read_load
from service.usecases.stored import Sessions

CACHE_S = 1.0
LEARNING_CACHE_S = 15.0
"""Of learning statistics: errors change with each measurement, which takes longer than this."""
PATIENCE_S = 0.1
MAX_BUSY_SHARE = 0.1
"""Where counting takes long, it is done no more than this share of the time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Queue, workers and learning statistics from the database."""

    load: Load = field(default_factory=Load)
    workers: tuple[WorkerSummary, ...] = ()
    learnt: LearningStatistics = field(default_factory=LearningStatistics)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsReading:
    """Metrics of one moment.

    ``snapshot`` is None while the database is away, ``redis_up`` where there is no Redis.
    """

    snapshot: MetricsSnapshot | None
    redis_up: bool | None
    seconds: float = 0.0


NO_READING = MetricsReading(snapshot=None, redis_up=None)
"""Reading before the first scrape."""


def take_metrics_snapshot(
    sessions: Sessions, *, gone_after_s: float, learnt: Callable[[], LearningStatistics]
) -> MetricsSnapshot | None:
    """Take a snapshot of the metrics.

    ``None`` while the database is away or at another schema.
    """
    try:
        return MetricsSnapshot(
            load=read_load(sessions),
            workers=tuple(list_workers(sessions, gone_after_s=gone_after_s)),
            learnt=learnt(),
        )
    except ServiceError:
        return None


class BackgroundReader:
    """Learning statistics read in a background thread.

    Sorting errors of a hundred thousand measurements takes seconds. A scrape waits for
    ``PATIENCE_S`` and then gets the last reading.
    """

    def __init__(
        self, read: Callable[[], LearningStatistics], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Prepare; the first call reads."""
        self._read = read
        self._clock = clock
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._latest = LearningStatistics()
        self._fresh_until = -math.inf

    def __call__(self) -> LearningStatistics:
        """Return the latest statistics."""
        with self._lock:
            if (
                self._thread is None or not self._thread.is_alive()
            ) and self._clock() >= self._fresh_until:
                self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
                self._thread.start()
            thread = self._thread
        if thread is not None:
            thread.join(PATIENCE_S)
        return self._latest

    def _run(self) -> None:
        began = self._clock()
        # While the database is away, the rest of the snapshot says so.
        with suppress(ServiceError):
            self._latest = self._read()
        ended = self._clock()
        self._fresh_until = ended + max(LEARNING_CACHE_S, (ended - began) / MAX_BUSY_SHARE)


class MetricsCache:
    """Metrics read at most once a second.

    Whoever asks while a reading is under way waits for it.
    """

    def __init__(
        self,
        take_snapshot: Callable[[], MetricsSnapshot | None],
        *,
        ping_redis: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare; the first ``read`` counts."""
        self._take_snapshot = take_snapshot
        self._ping = ping_redis
        self._clock = clock
        self._lock = threading.Lock()
        self._latest: MetricsReading | None = None
        self._fresh_until = 0.0

    def read(self) -> MetricsReading:
        """Return metrics at most a second old.

        Where counting takes long, they may be as old as ten times its duration.
        """
        with self._lock:
            if self._latest is None or self._clock() >= self._fresh_until:
                self._latest = self._read_now()
                self._fresh_until = self._clock() + max(
                    CACHE_S, self._latest.seconds / MAX_BUSY_SHARE
                )
            return self._latest

    def _read_now(self) -> MetricsReading:
        began = self._clock()
        snapshot = self._take_snapshot()
        redis_up = None if self._ping is None else self._ping()
        return MetricsReading(snapshot=snapshot, redis_up=redis_up, seconds=self._clock() - began)

"""The servers are asked at most once a second, however many scrape."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest

from service.base.errors import UnavailableError
from service.usecases.learning.accuracy import LearningStatistics
from service.usecases.operations import metrics_snapshot
from service.usecases.operations.load import Load
from service.usecases.operations.metrics_snapshot import (
    LEARNING_CACHE_S,
    BackgroundReader,
    MetricsCache,
    MetricsSnapshot,
)
from tests.waiting import eventually


class Clock:
    """A clock that a test sets."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return what it shows."""
        return self.now


def test_scrapes_within_a_second_share_one_look() -> None:
    """The second scrape is told what the first was; a second later somebody looks again."""
    clock, looks = Clock(), iter(range(9))
    registrar = MetricsCache(
        lambda: MetricsSnapshot(load=Load(expired_leases=next(looks))),
        ping_redis=lambda: True,
        clock=clock,
    )
    first = registrar.read()
    clock.now = 0.9
    second = registrar.read()
    clock.now = 1.1
    third = registrar.read()

    assert second is first
    assert third is not first
    assert (next(looks), first.redis_up) == (2, True)


def test_a_slow_database_is_asked_less_often() -> None:
    """Where counting takes a second it is done in every eleventh at most."""
    clock, looks = Clock(), []

    def take() -> MetricsSnapshot:
        looks.append(1)
        clock.now += 1.0
        return MetricsSnapshot()

    registrar = MetricsCache(take, clock=clock)
    registrar.read()
    for clock.now in (5.0, 10.0, 10.9):
        registrar.read()
    before = len(looks)
    clock.now = 11.1
    registrar.read()

    assert (before, len(looks)) == (1, 2)


def test_what_takes_long_holds_no_scrape_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scrape that has waited enough is told what was read before, and the next what was read
    meanwhile.
    """
    monkeypatch.setattr(metrics_snapshot, "PATIENCE_S", 0.05)
    go, reads = (
        Event(),
        iter(
            (
                LearningStatistics(),
                UnavailableError("away"),
                LearningStatistics(drifting={("a", "b"): 1}),
            ),
        ),
    )
    clock = Clock()

    def read() -> LearningStatistics:
        go.wait(10)
        found = next(reads)
        if isinstance(found, UnavailableError):
            raise found
        return found

    slow = BackgroundReader(read, clock=clock)
    nothing_yet = slow()
    go.set()
    eventually(lambda: slow() is not nothing_yet)
    first = slow()
    kept = slow()
    clock.now += LEARNING_CACHE_S
    while_away = slow()
    clock.now += LEARNING_CACHE_S
    eventually(lambda: slow().drifting)

    assert nothing_yet == LearningStatistics()
    assert kept is while_away is first


def test_those_who_ask_at_once_wait_for_one_look() -> None:
    """Two scrapers at the same moment make one look, and a database that is away is not asked by
    each of them.
    """
    asked, go, looks = Event(), Event(), []

    def take() -> None:
        looks.append(1)
        asked.set()
        go.wait(10)

    registrar = MetricsCache(take)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(registrar.read)
        asked.wait(10)
        second = threads.submit(registrar.read)
        go.set()

        assert first.result() is second.result()
    assert (len(looks), first.result().snapshot) == (1, None)

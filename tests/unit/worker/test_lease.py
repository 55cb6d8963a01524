"""The thread that keeps a lease."""

from collections.abc import Callable

import pytest

from service.base.errors import UnavailableError
from service.jobs.states import Lease
from tests.waiting import eventually
from worker import lease
from worker.lease import keep_lease

SOON_S = 0.01


def beats(*answers: Lease | UnavailableError) -> Callable[[], Lease]:
    """Return a heartbeat that gives these answers, and then that the lease is held."""
    left = list(answers)

    def beat() -> Lease:
        answer = left.pop(0) if left else Lease.HELD
        if isinstance(answer, UnavailableError):
            raise answer
        return answer

    return beat


def test_a_cancelled_job_is_noticed() -> None:
    """The flag in the row arrives with a heartbeat."""
    with keep_lease(beats(Lease.HELD, Lease.CANCELLED), look=beats(), interval_s=SOON_S) as watch:
        eventually(lambda: not watch.is_held)

    assert watch.lease is Lease.CANCELLED


def test_a_database_that_is_away_changes_nothing() -> None:
    """The attempt goes on, and the next heartbeat that gets through tells."""
    beat = beats(UnavailableError("away"), UnavailableError("away"), Lease.LOST)
    with keep_lease(beat, look=beats(), interval_s=SOON_S) as watch:
        eventually(lambda: not watch.is_held)

    assert watch.lease is Lease.LOST


def test_a_cancelled_job_is_noticed_between_heartbeats(monkeypatch: pytest.MonkeyPatch) -> None:
    """With an hour between heartbeats a look at the row still tells, and the lease is not renewed
    for it.
    """
    assert lease.LOOK_INTERVAL_S <= 1.0
    monkeypatch.setattr(lease, "LOOK_INTERVAL_S", SOON_S)
    looks = beats(Lease.HELD, UnavailableError("away"), Lease.CANCELLED)

    with keep_lease(beats(Lease.LOST), look=looks, interval_s=3600.0) as watch:
        eventually(lambda: not watch.is_held)

    assert watch.lease is Lease.CANCELLED


def test_the_heartbeat_ends_with_the_attempt() -> None:
    """After the context nothing beats any more."""
    count = 0

    def beat() -> Lease:
        nonlocal count
        count += 1
        return Lease.HELD

    with keep_lease(beat, look=beats(), interval_s=SOON_S):
        eventually(lambda: count >= 2)
    seen = count

    with keep_lease(beats(Lease.LOST), look=beats(), interval_s=SOON_S) as other:
        eventually(lambda: not other.is_held)
    assert count == seen

"""Waiting for a database that comes back."""

import pytest

from service.base.errors import ConflictError, ServiceError, UnavailableError
from worker.retry import retry_while_unavailable


class Clock:
    """A clock that only pauses move."""

    def __init__(self) -> None:
        """Start at zero."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    def pause(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


class Write:
    """A transaction that fails a number of times before it works."""

    def __init__(self, failures: int, error: ServiceError) -> None:
        """Fail ``failures`` times with ``error``."""
        self.failures = failures
        self.error = error
        self.calls = 0

    def __call__(self) -> str:
        """Try once."""
        self.calls += 1
        if self.calls <= self.failures:
            raise self.error
        return "written"


def test_a_write_is_repeated_until_the_database_takes_it() -> None:
    """Three refusals, then the answer."""
    clock, write = Clock(), Write(3, UnavailableError("away"))

    answer = retry_while_unavailable(write, for_s=60, clock=clock, pause=clock.pause)

    assert answer == "written"
    assert write.calls == 4


def test_patience_ends() -> None:
    """After the time that was given the error is the caller's, and no pause went past it."""
    clock, write = Clock(), Write(10**6, UnavailableError("away"))

    with pytest.raises(UnavailableError):
        retry_while_unavailable(write, for_s=60, clock=clock, pause=clock.pause)

    assert 55 < clock.now <= 60


def test_other_errors_are_not_waited_for() -> None:
    """What the database says no to will not change."""
    clock, write = Clock(), Write(1, ConflictError("no"))

    with pytest.raises(ConflictError):
        retry_while_unavailable(write, for_s=60, clock=clock, pause=clock.pause)

    assert write.calls == 1

"""Breaker between many questions and a server that does not answer."""

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from service.kueue.errors import SilentError

PAUSE_S = 2.0
"""After a question that was not answered, before the next one is tried."""


class Breaker:
    """Way to one server, open to all or to one trial.

    A server that hangs takes the whole time-out of each question. Once one has taken it, the others
    fail at once until a trial is answered, so that a thousand jobs wait no longer than one.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Take the server for one that answers."""
        self._clock = clock
        self._failure: SilentError | None = None
        self._next_at = 0.0
        self._is_trying = False

    @asynccontextmanager
    async def guard(self) -> AsyncIterator[None]:
        """Let a question through.

        Raises the SilentError of an earlier one where the server is still silent.
        """
        failure, is_trial = self._failure, self._failure is not None
        if failure is not None and (self._is_trying or self._clock() < self._next_at):
            raise SilentError(failure.detail)
        self._is_trying = is_trial or self._is_trying
        try:
            yield
        except SilentError as error:
            self._failure, self._next_at = error, self._clock() + PAUSE_S
            raise
        else:
            self._failure = None
        finally:
            if is_trial:
                self._is_trying = False

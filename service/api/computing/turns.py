"""Fair turns at a few threads, by use."""

import time
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import anyio

from service.base.errors import TooManyRequestsError, UnavailableError

HALF_LIFE_S = 30.0
"""After which half of what an asker used is forgotten: who asked much a minute ago waits no longer.
"""
MAX_WAITING_EACH = 256
"""Questions of one asker that may wait; a page asks one at a time, a sweep a few dozen."""
MAX_WAITING = 4096
MAX_ASKERS = 1024
"""Askers whose use is remembered; the one counted longest ago is forgotten first."""
RETRY_AFTER_S = 5


@dataclass(slots=True, kw_only=True)
class _Usage:
    """Use of the processor that counts at a moment."""

    seconds: float
    counted_at: float


class Turns:
    """Slots for computing, each given to the asker who used least.

    ``slots`` is how many compute at once. It belongs to one event loop.
    """

    def __init__(self, slots: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Start with all slots free."""
        self._num_free = slots
        self._num_waiting = 0
        self._clock = clock
        self._waiting: dict[str, deque[anyio.Event]] = {}
        self._usage: OrderedDict[str, _Usage] = OrderedDict()

    @asynccontextmanager
    async def take(self, asker: str) -> AsyncIterator[None]:
        """Hold a slot, waiting for it in turn.

        Raises TooManyRequestsError where too many of this asker's questions wait, and
        UnavailableError where too many of everybody's do.
        """
        await self._wait(asker)
        try:
            yield
        finally:
            self._hand_on()

    def count(self, asker: str, seconds: float) -> None:
        """Count a question's time of a processor against its asker."""
        self._usage[asker] = _Usage(
            seconds=self.get_usage(asker) + seconds, counted_at=self._clock()
        )
        self._usage.move_to_end(asker)
        while len(self._usage) > MAX_ASKERS:
            self._usage.popitem(last=False)

    def get_usage(self, asker: str) -> float:
        """Return the seconds that count against an asker now."""
        usage = self._usage.get(asker)
        if usage is None:
            return 0.0
        return float(usage.seconds * 0.5 ** ((self._clock() - usage.counted_at) / HALF_LIFE_S))

    async def _wait(self, asker: str) -> None:
        if self._num_free > 0:
            self._num_free -= 1
            return
        queue = self._waiting.get(asker, deque())
        self._refuse_crowds(queue)
        turn = anyio.Event()
        queue.append(turn)
        self._waiting[asker] = queue
        self._num_waiting += 1
        try:
            await turn.wait()
        except BaseException:
            if turn.is_set():
                self._hand_on()
            else:
                self._leave(asker, turn)
            raise

    def _refuse_crowds(self, queue: deque[anyio.Event]) -> None:
        if len(queue) >= MAX_WAITING_EACH:
            message = (
                f"{MAX_WAITING_EACH} questions of this caller wait to be computed; send the next "
                "when some are answered, or many at once to POST /v1/fit/batch"
            )
            raise TooManyRequestsError(message, retry_after_s=RETRY_AFTER_S)
        if self._num_waiting >= MAX_WAITING:
            message = f"{MAX_WAITING:,} questions wait to be computed; try again later"
            raise UnavailableError(message)

    def _hand_on(self) -> None:
        """Give a slot to the waiting asker who used least."""
        if not self._waiting:
            self._num_free += 1
            return
        asker = min(self._waiting, key=self.get_usage)
        turn = self._waiting[asker][0]
        self._leave(asker, turn)
        turn.set()

    def _leave(self, asker: str, turn: anyio.Event) -> None:
        queue = self._waiting[asker]
        queue.remove(turn)
        self._num_waiting -= 1
        if not queue:
            del self._waiting[asker]

"""Queue of objects to look at, with bounded backoff."""

import math
from collections.abc import Awaitable, Callable

import anyio

from service.base.errors import ServiceError
from service.kueue.api import ObjectKey
from service.kueue.errors import AskError
from service.runtime.logs import get_logger

FIRST_PAUSE_S, MAX_PAUSE_S = 1.0, 300.0
_MAX_DOUBLINGS = 16

Reconcile = Callable[[ObjectKey, int], Awaitable[None]]
"""Looks at one object; the number is how many questions about it have failed in a row before."""

_log = get_logger(__name__)


def get_pause_s(failures: int, most_s: float = MAX_PAUSE_S) -> float:
    """Return the pause after failures in a row.

    It is doubled each time, up to a bound.
    """
    return min(FIRST_PAUSE_S * 2.0 ** min(failures, _MAX_DOUBLINGS), most_s)


NUM_WORKERS = 4
"""Objects that are looked at at once; a server answers a few in the time of one."""


class WorkQueue:
    """Keys that are due, each once.

    One that is added again meanwhile is looked at once, and none by two workers at once.
    """

    def __init__(self, clock: Callable[[], float] = anyio.current_time) -> None:
        """Begin empty."""
        self._clock = clock
        self._due: dict[ObjectKey, float] = {}
        self._failures: dict[ObjectKey, int] = {}
        self._unanswered: dict[ObjectKey, int] = {}
        self._paused_until: dict[ObjectKey, float] = {}
        self._busy: set[ObjectKey] = set()
        self._added = anyio.Event()

    def add(self, key: ObjectKey, *, after_s: float = 0.0) -> None:
        """Make a key due, no later than it is already."""
        due = self._clock() + after_s
        self._due[key] = min(due, self._due.get(key, due))
        self._added.set()

    async def run(self, reconcile: Reconcile) -> None:
        """Look at what is due, several at once, until cancelled."""
        async with anyio.create_task_group() as group:
            for _ in range(NUM_WORKERS):
                group.start_soon(self._work, reconcile)

    async def _work(self, reconcile: Reconcile) -> None:
        while True:
            key = await self._take()
            try:
                await self.run_one(key, reconcile)
            finally:
                self._busy.discard(key)
                self._added.set()

    async def run_one(self, key: ObjectKey, reconcile: Reconcile) -> None:
        """Look at one object, and again later where that fails."""
        unanswered = self._unanswered.get(key, 0)
        try:
            await reconcile(key, unanswered)
        except AskError as error:
            if self._retry(key, error.detail):
                self._unanswered[key] = unanswered + 1
        except ServiceError as error:
            self._retry(key, error.detail)
        except Exception as error:  # noqa: BLE001 - one strange object must not stop all others
            self._retry(key, repr(error))
        else:
            self._failures.pop(key, None)
            self._unanswered.pop(key, None)
            self._paused_until.pop(key, None)

    def _retry(self, key: ObjectKey, reason: str) -> bool:
        """Make a key due after a pause; return whether its failure counts.

        One that changed is looked at within its pause: however often it changes, a server that is
        away is away no longer for that.
        """
        now, until = self._clock(), self._paused_until.get(key, 0.0)
        if now < until:
            self.add(key, after_s=until - now)
            return False
        failures = self._failures.get(key, 0)
        self._failures[key] = failures + 1
        pause_s = get_pause_s(failures)
        self._paused_until[key] = now + pause_s
        self.add(key, after_s=pause_s)
        _log.warning(
            "kueue.retried",
            kind=key.resource.kind,
            namespace=key.namespace,
            name=key.name,
            failures=failures + 1,
            pause_s=pause_s,
            reason=reason,
        )
        return True

    async def _take(self) -> ObjectKey:
        while True:
            now = self._clock()
            key = min(self._due.keys() - self._busy, key=self._due.__getitem__, default=None)
            due = math.inf if key is None else self._due[key]
            if key is not None and due <= now:
                del self._due[key]
                self._busy.add(key)
                return key
            if self._added.is_set():
                self._added = anyio.Event()
            with anyio.move_on_after(due - now):
                await self._added.wait()

"""A background thread that renews an attempt's lease.

It runs while the probe does, and learns when the answer is no longer wanted.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context

from service.base.errors import UnavailableError
from service.jobs.states import Lease
from service.runtime.logs import get_logger

LOOK_INTERVAL_S = 1.0
"""Time between two reads of a running attempt's lease.

A lease is renewed less often, since that is a write.
"""

_log = get_logger(__name__)


class LeaseWatch:
    """Last known state of an attempt's lease.

    A lease that is lost is never held again.
    """

    def __init__(self) -> None:
        """Begin with the lease that the claim gave."""
        self.lease = Lease.HELD
        self._over = threading.Event()

    @property
    def is_held(self) -> bool:
        """Whether the attempt should go on."""
        return self.lease is Lease.HELD

    def keep(self, beat: Callable[[], Lease], look: Callable[[], Lease], interval_s: float) -> None:
        """Renew the lease periodically until it or the attempt is over.

        Renews every ``interval_s`` seconds through ``beat`` and reads in between through ``look``.
        """
        next_beat = time.monotonic() + interval_s
        while self.is_held and not self._over.wait(min(interval_s, LOOK_INTERVAL_S)):
            is_due = time.monotonic() >= next_beat
            try:
                self.lease = beat() if is_due else look()
                # One that did not get through is due until it does.
                next_beat = time.monotonic() + interval_s if is_due else next_beat
            except UnavailableError as error:
                # The attempt goes on: if another one begins meanwhile, the fence decides.
                _log.warning("heartbeat.missed", reason=error.detail)

    def end(self) -> None:
        """Beat no more."""
        self._over.set()


@contextmanager
def keep_lease(
    beat: Callable[[], Lease], *, look: Callable[[], Lease], interval_s: float
) -> Iterator[LeaseWatch]:
    """Keep a lease in the background for the length of a block.

    ``beat`` renews it, ``look`` only reads.
    """
    watch = LeaseWatch()
    # A thread begins without the ids that are on every line of the log.
    work = copy_context().run
    thread = threading.Thread(
        target=work, args=(watch.keep, beat, look, interval_s), name="lease", daemon=True
    )
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join()

"""Memory that the calls of children take together."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

TICK_S = 0.05
"""How often a call that waits looks whether its answer is still wanted."""


class ChildMemory:
    """Bytes that calls may take at once.

    Each says before how many. One that finds too few left waits until others have ended; smaller
    ones go before it.
    """

    def __init__(self, total_bytes: int | None = None) -> None:
        """Let calls take so many bytes together, without a number any."""
        self.total_bytes = total_bytes
        self._taken_bytes = 0
        self._changed = threading.Condition()

    @contextmanager
    def take(
        self, num_bytes: int, check: Callable[[], None], *, spared_bytes: int = 0
    ) -> Iterator[None]:
        """Take bytes for the length of a block, waiting for them.

        ``spared_bytes`` are left for others. What takes more than there is runs alone. ``check``
        raises where nobody waits any more.
        """
        with self._changed:
            while not self._has_room(num_bytes + spared_bytes):
                check()
                self._changed.wait(TICK_S)
            self._taken_bytes += num_bytes
        try:
            yield
        finally:
            with self._changed:
                self._taken_bytes -= num_bytes
                self._changed.notify_all()

    def _has_room(self, num_bytes: int) -> bool:
        if self.total_bytes is None or self._taken_bytes == 0:
            return True
        return self._taken_bytes + num_bytes <= self.total_bytes

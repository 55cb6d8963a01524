"""Event streams that are open, counted for each caller."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from service.base.errors import TooManyRequestsError

MAX_STREAMS = 512
"""Of a process."""
MAX_STREAMS_EACH = 128
"""Of one caller: a sweep that waits for each of its measurements has a few dozen."""
LEAST_POLL_S = 0.25
READS_PER_S = 256
"""Reads of the database for all streams together, of a millisecond each: with more streams than a
quarter of it, each reads less often.
"""
RETRY_AFTER_S = 5


class OpenStreams:
    """Count of open streams. It belongs to one event loop."""

    def __init__(self) -> None:
        """Start with none."""
        self._num_open: Counter[str] = Counter()

    @contextmanager
    def hold(self, caller: str) -> Iterator[None]:
        """Count one more stream of a caller while it is open.

        Raises TooManyRequestsError where there are too many.
        """
        if self._num_open[caller] >= MAX_STREAMS_EACH:
            refuse(f"you have {MAX_STREAMS_EACH} event streams open here, as many as one may")
        if self._num_open.total() >= MAX_STREAMS:
            refuse(f"this process has {MAX_STREAMS} event streams open, as many as it may")
        self._num_open[caller] += 1
        try:
            yield
        finally:
            self._num_open[caller] -= 1
            if not self._num_open[caller]:
                del self._num_open[caller]

    def get_poll_s(self) -> float:
        """Return how long a stream waits between two reads of the database."""
        return max(LEAST_POLL_S, self._num_open.total() / READS_PER_S)


def refuse(reason: str) -> None:
    """Refuse one stream more."""
    message = (
        f"{reason}; close one, or ask for the measurement itself, whose status says whether it is "
        "over"
    )
    raise TooManyRequestsError(message, retry_after_s=RETRY_AFTER_S)

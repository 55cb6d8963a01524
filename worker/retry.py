"""Retry of transactions while the database is away."""

import time
from collections.abc import Callable
from typing import TypeVar

from service.base.errors import UnavailableError
from service.runtime.logs import get_logger

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 2.0

_log = get_logger(__name__)
_Answer = TypeVar("_Answer")


def retry_while_unavailable(
    write: Callable[[], _Answer],
    *,
    for_s: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], None] = time.sleep,
) -> _Answer:
    """Run a transaction until the database takes it.

    Retries for at most ``for_s`` seconds; ``write`` must be safe to run twice.
    """
    end = clock() + for_s
    pause_s = FIRST_PAUSE_S
    while True:
        try:
            return write()
        except UnavailableError as error:
            if clock() + pause_s > end:
                raise
            _log.warning("database.away", reason=error.detail, again_in_s=pause_s)
        pause(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

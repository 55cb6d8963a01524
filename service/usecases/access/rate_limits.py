"""Rate limits per key, counted in Redis for all processes.

Where Redis is away nobody is held up.
"""

import math
import time
from collections.abc import Callable

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage, RedisStorage, Storage
from limits.strategies import SlidingWindowCounterRateLimiter

from service.access.limits import parse_limit
from service.base.errors import TooManyRequestsError
from service.runtime.logs import get_logger

TIMEOUT_S = 0.25
RETRY_AFTER_S = 5.0
"""Time without calls to Redis after it failed: a request that waits for it is held up by
``TIMEOUT_S``.
"""
_KIND = "requests"
"""Part of the counter's name, in Redis too."""

_log = get_logger(__name__)


class Throttle:
    """Thread-safe rate limiter by key.

    ``counts`` is Redis, or memory where there is none.
    """

    def __init__(self, counts: Storage, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; the first count connects."""
        self._limiter = SlidingWindowCounterRateLimiter(counts)
        self._clock = clock
        self._away_until = -math.inf

    def count(self, limit: str, *, key_id: str, number: int = 1) -> None:
        """Count ``number`` more requests, all of them or none.

        Raises TooManyRequestsError past the limit.
        """
        if self._clock() < self._away_until:
            return
        parsed = parse_limit(limit)
        item = RateLimitItemPerSecond(parsed.amount, parsed.seconds)
        try:
            if self._limiter.hit(item, key_id, _KIND, cost=number):
                return
            stats = self._limiter.get_window_stats(item, key_id, _KIND)
        except Exception as error:  # noqa: BLE001 - each storage has errors of its own, and none may hold a request up
            self._away_until = self._clock() + RETRY_AFTER_S
            _log.warning(
                "throttle.failed", error=repr(error), effect=f"no limits for {RETRY_AFTER_S:g} s"
            )
            return
        reset_s = max(1, math.ceil(stats.reset_time - time.time()))
        message = f"this key may send requests {limit}; try again in {reset_s} s"
        raise TooManyRequestsError(message, retry_after_s=reset_s)


def make_throttle(redis_url: str | None) -> Throttle:
    """Return the counter of limits over Redis, or over this process's memory."""
    if redis_url is None:
        return Throttle(MemoryStorage())
    url = (
        redis_url.replace("unix://", "redis+unix://", 1)
        if redis_url.startswith("unix://")
        else redis_url
    )
    return Throttle(
        RedisStorage(
            url,
            key_prefix="headroom:limits",
            socket_timeout=TIMEOUT_S,
            socket_connect_timeout=TIMEOUT_S,
        ),
    )

"""Retry policy: repeatable requests and the pauses between them."""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from enum import Enum

import httpx

_BUSY = frozenset({429})
_AWAY = frozenset({429, 502, 503, 504})


class Repeat(Enum):
    """Repeatability of a call.

    ``ALWAYS``: a call that changes nothing or has an ``Idempotency-Key``. ``IF_NOT_DONE``: one that
    was surely not done.
    """

    ALWAYS = "always"
    IF_NOT_DONE = "if not done"

    def after_status(self, status: int) -> bool:
        """Return whether this status is worth another try.

        429 was not done; of a gateway's error nobody knows.
        """
        return status in (_AWAY if self is Repeat.ALWAYS else _BUSY)

    def after_fault(self, fault: httpx.TransportError) -> bool:
        """Return whether a failed connection is worth another try.

        One that was never made carried nothing.
        """
        never_sent = isinstance(
            fault, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout
        )
        return never_sent or self is Repeat.ALWAYS


@dataclass(frozen=True, slots=True, kw_only=True)
class Retries:
    """Limits and pauses of retries.

    The pauses are exponential with full jitter, which spread many clients; see AWS Architecture
    Blog, "Exponential Backoff And Jitter" (2015). A ``Retry-After`` that is longer than ``most_s``
    is not waited for: whoever calls can plan better.
    """

    attempts: int = 5
    first_s: float = 0.25
    most_s: float = 30.0
    jitter: Callable[[], float] = random.random  # pauses are no secret
    pause: Callable[[float], None] = time.sleep

    def __post_init__(self) -> None:
        """Refuse a policy without attempts or with negative pauses."""
        if self.attempts < 1 or not 0 <= self.first_s <= self.most_s:
            message = (
                f"attempts is {self.attempts}, first_s {self.first_s}, most_s {self.most_s}; at "
                "least 1, and 0 to most_s"
            )
            raise ValueError(message)

    def wait_s(self, attempt: int, retry_after_s: float | None = None) -> float | None:
        """Return the pause after the ``attempt``-th try, counted from 1.

        ``None`` where another one is not worth it.
        """
        if attempt >= self.attempts or (retry_after_s is not None and retry_after_s > self.most_s):
            return None
        longest = min(self.most_s, self.first_s * (1 << (attempt - 1)))
        return max(retry_after_s or 0.0, self.jitter() * longest)


def retry_after_s(response: httpx.Response) -> float | None:
    """Return ``Retry-After`` in seconds.

    From now where it is a date (RFC 9110, sec. 10.2.3).
    """
    text = response.headers.get("retry-after", "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError):
        return None

"""Waiting in tests: for a condition, with a deadline.

Tests never sleep for a fixed time.
"""

import time
from collections.abc import Callable

_PAUSE_S = 0.02


def eventually(condition: Callable[[], object], *, within_s: float = 120.0) -> None:
    """Wait until the condition holds; fail when it does not in time."""
    deadline = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > deadline:
            message = f"{condition} does not hold after {within_s:g} s"
            raise AssertionError(message)
        time.sleep(_PAUSE_S)

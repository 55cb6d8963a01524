"""Pulse of the event loop, which a probe of liveness feels.

Metrics are served by a thread, which goes on answering where the loop stands still.
"""

import time
from collections.abc import Callable

import anyio

BEAT_S, DEAD_S = 1.0, 30.0
"""Between two beats, and without one until the loop counts as dead."""


class Pulse:
    """Beats of a loop, as other threads see them."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """Begin with a beat."""
        self._clock = clock
        self._last = clock()

    async def run(self) -> None:
        """Beat until cancelled."""
        while True:
            self._last = self._clock()
            await anyio.sleep(BEAT_S)

    def count_silence_s(self) -> float:
        """Return the seconds since the last beat."""
        return self._clock() - self._last

"""Time series of readings, compressed without losing a peak. Pure.

Each window keeps the lowest and the highest value.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

DEVICE_USED = "device_used"
PROCESS_USED = "process_used"
POWER = "power_mw"
UTILIZATION = "utilization_percent"

MAX_WINDOWS = 600
"""Windows of one recording; beyond, neighbours are merged and the windows grow."""
FIRST_WINDOW_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The lowest and the highest value of a window."""

    low: int
    high: int

    def __or__(self, other: "Extent") -> "Extent":
        """Return the range that covers both."""
        return Extent(low=min(self.low, other.low), high=max(self.high, other.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """The readings from ``begin_s`` to ``end_s`` within one phase.

    ``extents`` has the range of each kind of value, ``num_readings`` counts readings of memory.
    """

    begin_s: float
    end_s: float
    phase: str
    extents: Mapping[str, Extent]
    num_readings: int = 1

    def __or__(self, other: "Window") -> "Window":
        """Merge this window with the next one of the same phase."""
        extents = dict(self.extents)
        for kind, extent in other.extents.items():
            extents[kind] = extents[kind] | extent if kind in extents else extent
        return Window(
            begin_s=self.begin_s,
            end_s=other.end_s,
            phase=self.phase,
            extents=extents,
            num_readings=self.num_readings + other.num_readings,
        )


@dataclass(slots=True)
class Series:
    """Windows so far; readings must come in the order of time.

    The last window is kept in plain numbers while it grows: a hundred readings a second are to cost
    next to nothing.
    """

    window_s: float = FIRST_WINDOW_S
    longest_gap_s: float = 0.0
    num_readings: int = 0
    """Readings of memory so far."""
    _closed: list[Window] = field(default_factory=list)
    _phase: str = ""
    _begin_s: float = 0.0
    _end_s: float = 0.0
    _low: dict[str, int] = field(default_factory=dict)
    _high: dict[str, int] = field(default_factory=dict)
    _num_open: int = 0

    def take(self, t_s: float, phase: str, values: Mapping[str, int]) -> None:
        """Add one reading."""
        if self.num_readings and t_s - self._end_s > self.longest_gap_s:
            self.longest_gap_s = t_s - self._end_s
        if self._num_open and (phase != self._phase or t_s - self._begin_s >= self.window_s):
            self._close()
        if not self._num_open:
            self._phase, self._begin_s = phase, t_s
        self._end_s = t_s
        self._num_open += 1
        self.num_readings += 1
        low, high = self._low, self._high
        for kind, value in values.items():
            if kind not in high:
                low[kind] = high[kind] = value
            elif value > high[kind]:
                high[kind] = value
            elif value < low[kind]:
                low[kind] = value

    @property
    def windows(self) -> list[Window]:
        """All windows, including the one that grows."""
        return [*self._closed, self._open_window()] if self._num_open else list(self._closed)

    def highest(self, kind: str) -> dict[str, int]:
        """Return the highest value of a kind by phase.

        Phases are in the order of time.
        """
        highest: dict[str, int] = {}
        for window in self.windows:
            if kind in window.extents:
                value = window.extents[kind].high
                highest[window.phase] = max(highest.get(window.phase, value), value)
        return highest

    def _open_window(self) -> Window:
        return Window(
            begin_s=self._begin_s,
            end_s=self._end_s,
            phase=self._phase,
            extents={
                kind: Extent(low=self._low[kind], high=high) for kind, high in self._high.items()
            },
            num_readings=self._num_open,
        )

    def _close(self) -> None:
        self._closed.append(self._open_window())
        self._low, self._high, self._num_open = {}, {}, 0
        while len(self._closed) > MAX_WINDOWS:
            self.window_s *= 2
            merged = _merge(self._closed, self.window_s)
            if len(merged) == len(self._closed):
                # Phases shorter than a window cannot be merged with their neighbours.
                return
            self._closed = merged


def _merge(windows: list[Window], window_s: float) -> list[Window]:
    merged = windows[:1]
    for window in windows[1:]:
        last = merged[-1]
        if last.phase == window.phase and window.end_s - last.begin_s < window_s:
            merged[-1] = last | window
        else:
            merged.append(window)
    return merged

"""Readings over time, kept small without losing a peak: each window keeps the lowest and the highest value. Pure."""

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
        """Return what holds both."""
        return Extent(low=min(self.low, other.low), high=max(self.high, other.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """What was read from ``begin_s`` to ``end_s`` within one phase, by kind of value; ``num_readings`` of memory."""

    begin_s: float
    end_s: float
    phase: str
    extents: Mapping[str, Extent]
    num_readings: int = 1

    def __or__(self, other: "Window") -> "Window":
        """Return this window and the next as one; it has the phase of both, or it is no window."""
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
    """Windows so far; readings must come in the order of time."""

    windows: list[Window] = field(default_factory=list)
    window_s: float = FIRST_WINDOW_S
    longest_gap_s: float = 0.0

    def take(self, t_s: float, phase: str, values: Mapping[str, int]) -> None:
        """Add one reading."""
        reading = Window(
            begin_s=t_s,
            end_s=t_s,
            phase=phase,
            extents={kind: Extent(low=value, high=value) for kind, value in values.items()},
        )
        if not self.windows:
            self.windows.append(reading)
            return
        last = self.windows[-1]
        self.longest_gap_s = max(self.longest_gap_s, t_s - last.end_s)
        if last.phase == phase and t_s - last.begin_s < self.window_s:
            self.windows[-1] = last | reading
        else:
            self.windows.append(reading)
            self._stay_small()

    def highest(self, kind: str) -> dict[str, int]:
        """Return the highest value of a kind by phase, in the order of the phases."""
        highest: dict[str, int] = {}
        for window in self.windows:
            if kind in window.extents:
                value = window.extents[kind].high
                highest[window.phase] = max(highest.get(window.phase, value), value)
        return highest

    @property
    def num_readings(self) -> int:
        """Readings of memory so far."""
        return sum(window.num_readings for window in self.windows)

    def _stay_small(self) -> None:
        while len(self.windows) > MAX_WINDOWS:
            self.window_s *= 2
            merged = _merge(self.windows, self.window_s)
            if len(merged) == len(self.windows):
                # Phases shorter than a window cannot be merged with their neighbours.
                return
            self.windows = merged


def _merge(windows: list[Window], window_s: float) -> list[Window]:
    merged = windows[:1]
    for window in windows[1:]:
        last = merged[-1]
        if last.phase == window.phase and window.end_s - last.begin_s < window_s:
            merged[-1] = last | window
        else:
            merged.append(window)
    return merged

"""Times and allocator peaks of a run, divided by its marks.

Every step is timed on the GPU; in the last one the allocator's peaks are read between all marks.
Nothing waits for the GPU at a mark. The allocator works when the host asks it, so its counts are
complete there, and a synchronisation would change the time that is measured. Steps that are timed
are left alone for the same reason: asking the allocator at every layer's border would take longer
than a small layer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from service.probing.plan import NUM_COLD_ROUNDS, NUM_ROUNDS
from worker.probes.cuda.driver import AllocatorBytes, Driver, GpuEvent
from worker.probes.run.extrapolate import get_instant
from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch

OnInstant = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class StretchCounts:
    """The allocator's counts between two marks.

    ``in_round`` is true within a step or a round, where cuBLAS has its workspaces.
    """

    name: str
    begin: AllocatorBytes
    end: AllocatorBytes
    in_round: bool


@dataclass(slots=True, kw_only=True)
class MarkWatch:
    """The record of one run.

    ``begins_round`` returns whether a mark begins a step or a round, the last of which has its
    peaks recorded.
    """

    driver: Driver
    begins_round: Callable[[str], bool]
    on_instant: OnInstant
    """Called with each instant that the run comes to."""
    closed: list[StretchCounts] = field(default_factory=list)
    events: list[tuple[str, GpuEvent]] = field(default_factory=list)
    highest: AllocatorBytes | None = None
    _name: str = BEFORE_FIRST_MARK
    _begin: AllocatorBytes | None = None
    _num_begun: int = 0

    @property
    def name(self) -> str:
        """The stretch that the run is in."""
        return self._name

    def on_mark(self, name: str) -> None:
        """Record a mark."""
        recorded_peaks, was_in_round = self._records_peaks, self._num_begun > 0
        if self.begins_round(name):
            self._num_begun += 1
        self.on_instant(get_instant(name))
        if recorded_peaks or self._records_peaks:
            self._read_counts(closes=recorded_peaks, in_round=was_in_round)
        if not self._records_peaks and get_instant(name) != get_instant(self._name):
            self.events.append((name, self.driver.record_event()))
        self._name = name

    def end(self) -> None:
        """Close the last stretch."""
        self._read_counts(closes=True, in_round=self._num_begun > 0)

    def seconds(self, begin: str, ends: Collection[str]) -> tuple[float, ...]:
        """Return the GPU's seconds from a mark to the next end.

        ``begin`` is the beginning of a mark's name, an end a full name. The first rounds are left
        out.
        """
        durations, start = [], None
        for name, event in self.events:
            if name.startswith(begin):
                start = event
            elif name in ends and start is not None:
                durations.append(self.driver.seconds(start, event))
                start = None
        return tuple(durations[NUM_COLD_ROUNDS:])

    @property
    def _records_peaks(self) -> bool:
        """Whether peaks are recorded: while loading, and in the last round."""
        return self._num_begun in {0, NUM_ROUNDS}

    def _read_counts(self, *, closes: bool, in_round: bool) -> None:
        counts = self.driver.counts()
        if closes and self._begin is not None:
            self.closed.append(
                StretchCounts(name=self._name, begin=self._begin, end=counts, in_round=in_round)
            )
        self.highest = counts if self.highest is None else self.highest | counts
        self.driver.forget_peaks()
        self._begin = counts


def build_stretches(
    closed: Sequence[StretchCounts], *, workspace_bytes: int
) -> tuple[Stretch, ...]:
    """Build the stretches from the bytes that tensors requested.

    cuBLAS's workspaces are subtracted once they are there. ``allocator_peak`` is what torch calls
    allocated: in blocks, and with the workspaces.
    """
    return tuple(_build_stretch(counts, workspace_bytes) for counts in closed)


def compute_reserved_by_stretch(
    closed: Sequence[StretchCounts], names: Collection[str]
) -> Mapping[str, int]:
    """Return the highest reserved bytes of these stretches.

    They are those of the last round.
    """
    highest: dict[str, int] = {}
    for counts in closed:
        if counts.in_round and counts.name in names:
            highest[counts.name] = max(highest.get(counts.name, 0), counts.end.reserved_peak)
    return highest


def _build_stretch(counts: StretchCounts, workspace_bytes: int) -> Stretch:
    excluded_bytes = workspace_bytes if counts.in_round else 0
    return Stretch(
        name=counts.name,
        start=counts.begin.requested - excluded_bytes,
        live_peak=counts.end.requested_peak - excluded_bytes,
        allocator_peak=counts.end.allocated_peak,
        end=counts.end.requested - excluded_bytes,
    )

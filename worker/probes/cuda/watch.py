"""Follows a run by its marks: the GPU's time of every step, and in the last one the allocator's peaks between all marks.

Nothing waits for the GPU at a mark. The allocator works when the host asks it, so its counts are complete there, and a
synchronisation would change the time that is measured. Steps that are timed are left alone for the same reason: asking the
allocator at every layer's border would take longer than a small layer.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from service.probing.plan import NUM_COLD_ROUNDS, NUM_ROUNDS
from worker.probes.cuda.driver import AllocatorBytes, Driver, Moment
from worker.probes.run.extrapolate import instant_of
from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch

Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """What the allocator counted between two marks; ``in_round``: of a step or a round, where cuBLAS has its workspaces."""

    name: str
    begin: AllocatorBytes
    end: AllocatorBytes
    in_round: bool


@dataclass(slots=True, kw_only=True)
class Watch:
    """One run; ``begins_round`` tells the marks that begin a step or a round, the last of which is looked at closely."""

    driver: Driver
    begins_round: Callable[[str], bool]
    enter: Tell
    """Called with the instant that the run comes to."""
    closed: list[Closed] = field(default_factory=list)
    moments: list[tuple[str, Moment]] = field(default_factory=list)
    highest: AllocatorBytes | None = None
    _name: str = BEFORE_FIRST_MARK
    _begin: AllocatorBytes | None = None
    _num_begun: int = 0

    @property
    def name(self) -> str:
        """Return the stretch that the run is in."""
        return self._name

    def on_mark(self, name: str) -> None:
        """Take note of a mark."""
        was_close, was_in_round = self._is_close, self._num_begun > 0
        if self.begins_round(name):
            self._num_begun += 1
        self.enter(instant_of(name))
        if was_close or self._is_close:
            self._look(closes=was_close, in_round=was_in_round)
        if not self._is_close and instant_of(name) != instant_of(self._name):
            self.moments.append((name, self.driver.now()))
        self._name = name

    def end(self) -> None:
        """Close the last stretch."""
        self._look(closes=True, in_round=self._num_begun > 0)

    def seconds(self, begin: str, end: str) -> tuple[float, ...]:
        """Return the GPU's time from each mark that begins with ``begin`` to the next called ``end``, first rounds left out."""
        found, began = [], None
        for name, moment in self.moments:
            if name.startswith(begin):
                began = moment
            elif name == end and began is not None:
                found.append(self.driver.seconds(began, moment))
                began = None
        return tuple(found[NUM_COLD_ROUNDS:])

    @property
    def _is_close(self) -> bool:
        """Whether peaks are asked for: while the model is made, and in the last round."""
        return self._num_begun in {0, NUM_ROUNDS}

    def _look(self, *, closes: bool, in_round: bool) -> None:
        counts = self.driver.counts()
        if closes and self._begin is not None:
            self.closed.append(Closed(name=self._name, begin=self._begin, end=counts, in_round=in_round))
        self.highest = counts if self.highest is None else self.highest | counts
        self.driver.forget_peaks()
        self._begin = counts


def stretches_of(closed: Sequence[Closed], *, workspace_bytes: int) -> tuple[Stretch, ...]:
    """Return the stretches with the bytes that tensors asked for, less cuBLAS's workspaces once they are there.

    ``allocator_peak`` is what torch calls allocated: in blocks, and with the workspaces.
    """
    return tuple(_stretch(one, workspace_bytes) for one in closed)


def reserved_by_stretch(closed: Sequence[Closed], names: Collection[str]) -> Mapping[str, int]:
    """Return the highest reserved bytes of each of these stretches of the last round."""
    highest: dict[str, int] = {}
    for one in closed:
        if one.in_round and one.name in names:
            highest[one.name] = max(highest.get(one.name, 0), one.end.reserved_peak)
    return highest


def _stretch(one: Closed, workspace_bytes: int) -> Stretch:
    beside = workspace_bytes if one.in_round else 0
    return Stretch(
        name=one.name,
        start=one.begin.requested - beside,
        live_peak=one.end.requested_peak - beside,
        allocator_peak=one.end.allocated_peak,
        end=one.end.requested - beside,
    )

"""Allocations and releases of a traced run, in order, with its marks.

It has plain numbers and strings: the ledger knows no tensors. A storage is identified by its
position in the list of allocations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """One allocated storage.

    It has its bytes, the operator and the stretch that made it, and the tensor that it was made
    for.
    """

    num_bytes: int
    operator: str
    shape: tuple[int, ...]
    dtype: str
    stretch: str


@dataclass(slots=True)
class Ledger:
    """Allocations, releases and marks of a run, in order.

    ``order`` holds ``i`` where storage ``i`` is made and ``~i`` where it is released; ``marks`` are
    positions in it.
    """

    allocations: list[Allocation] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    stretch: str = BEFORE_FIRST_MARK

    def mark(self, name: str) -> None:
        """Begin the stretch ``name``."""
        self.stretch = name
        self.marks.append((len(self.order), name))

    def allocate(self, num_bytes: int, operator: str, shape: tuple[int, ...], dtype: str) -> int:
        """Record a new storage and return its position."""
        place = len(self.allocations)
        self.allocations.append(
            Allocation(
                num_bytes=num_bytes,
                operator=operator,
                shape=shape,
                dtype=dtype,
                stretch=self.stretch,
            ),
        )
        self.order.append(place)
        return place

    def release(self, place: int) -> None:
        """Record that a storage is released."""
        self.order.append(~place)

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Yield each stretch with its begin and end in ``order``."""
        begins = [(0, BEFORE_FIRST_MARK), *self.marks]
        ends = [*(place for place, _ in self.marks), len(self.order)]
        for (begin, name), end in zip(begins, ends, strict=True):
            yield name, begin, end

    def live(self) -> list[int]:
        """Return the live bytes after every event."""
        allocations, total, totals = self.allocations, 0, []
        for event in self.order:
            total += allocations[event].num_bytes if event >= 0 else -allocations[~event].num_bytes
            totals.append(total)
        return totals

    def alive_at(self, moment: int) -> list[int]:
        """Return the storages alive after the event at ``moment``.

        They are in the order in which they were made.
        """
        alive: dict[int, None] = {}
        for event in self.order[: moment + 1]:
            if event >= 0:
                alive[event] = None
            else:
                del alive[~event]
        return list(alive)


def compute_stretches(ledger: Ledger, totals: Sequence[int]) -> tuple[Stretch, ...]:
    """Compute start, peak and end of every stretch.

    ``totals`` has the sum of bytes after every event.
    """
    all_stretches = []
    for name, begin, end in ledger.spans():
        start = totals[begin - 1] if begin else 0
        highest = max(totals[begin:end], default=start)
        last = totals[end - 1] if end > begin else start
        peak = max(start, highest)
        all_stretches.append(
            Stretch(name=name, start=start, live_peak=peak, allocator_peak=peak, end=last)
        )
    return tuple(all_stretches)

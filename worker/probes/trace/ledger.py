"""What a traced run allocated and released, in order, under the marks that divide it.

Plain numbers and words: the ledger knows no tensors. A storage is known by its place in the list of births.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from worker.probes.run.recorder import BEFORE_FIRST_MARK, Stretch


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """A storage that was made: its bytes, the operator and the stretch that made it, and the tensor that it was made for."""

    num_bytes: int
    operator: str
    shape: tuple[int, ...]
    dtype: str
    stretch: str


@dataclass(slots=True)
class Ledger:
    """``order`` holds ``i`` where storage ``i`` is made and ``~i`` where it is released; ``marks`` are places in it."""

    births: list[Birth] = field(default_factory=list)
    order: list[int] = field(default_factory=list)
    marks: list[tuple[int, str]] = field(default_factory=list)
    stretch: str = BEFORE_FIRST_MARK

    def mark(self, name: str) -> None:
        """Begin the stretch ``name``."""
        self.stretch = name
        self.marks.append((len(self.order), name))

    def make(self, num_bytes: int, operator: str, shape: tuple[int, ...], dtype: str) -> int:
        """Write down a new storage and return its place."""
        place = len(self.births)
        self.births.append(
            Birth(num_bytes=num_bytes, operator=operator, shape=shape, dtype=dtype, stretch=self.stretch),
        )
        self.order.append(place)
        return place

    def release(self, place: int) -> None:
        """Write down that a storage is gone."""
        self.order.append(~place)

    def spans(self) -> Iterator[tuple[str, int, int]]:
        """Yield each stretch with the places in ``order`` where it begins and ends."""
        begins = [(0, BEFORE_FIRST_MARK), *self.marks]
        ends = [*(place for place, _ in self.marks), len(self.order)]
        for (begin, name), end in zip(begins, ends, strict=True):
            yield name, begin, end

    def live(self) -> list[int]:
        """Return the live bytes after every event."""
        births, total, totals = self.births, 0, []
        for event in self.order:
            total += births[event].num_bytes if event >= 0 else -births[~event].num_bytes
            totals.append(total)
        return totals

    def alive_at(self, moment: int) -> list[int]:
        """Return the storages that are alive after the event at ``moment``, in the order in which they were made."""
        alive: dict[int, None] = {}
        for event in self.order[: moment + 1]:
            if event >= 0:
                alive[event] = None
            else:
                del alive[~event]
        return list(alive)


def stretches(ledger: Ledger, totals: Sequence[int]) -> tuple[Stretch, ...]:
    """Return start, peak and end of every stretch, in bytes of which ``totals`` says the sum after every event."""
    found = []
    for name, begin, end in ledger.spans():
        start = totals[begin - 1] if begin else 0
        highest = max(totals[begin:end], default=start)
        last = totals[end - 1] if end > begin else start
        peak = max(start, highest)
        found.append(Stretch(name=name, start=start, live_peak=peak, allocator_peak=peak, end=last))
    return tuple(found)

"""Allocations and releases of an optimizer's step, in order."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter

from service.estimator.memory.optimizers.tensors import TrainedTensor


@dataclass(frozen=True, slots=True, kw_only=True)
class StepEvents:
    """Allocations and releases of one step.

    An event ``i`` allocates tensor ``i``, of ``sizes[i]`` bytes, an event ``~i`` frees it.
    """

    sizes: tuple[int, ...] = ()
    order: tuple[int, ...] = ()


class StepLog:
    """Log of the tensors that an optimizer's step makes and drops."""

    def __init__(self) -> None:
        """Begin with no tensor."""
        self.sizes: list[int] = []
        self.order: list[int] = []
        self.peak_bytes = 0
        self._live_bytes = 0

    def make(self, num_bytes: int) -> int:
        """Allocate a tensor and return its place."""
        place = len(self.sizes)
        self.sizes.append(num_bytes)
        self.order.append(place)
        self._live_bytes += num_bytes
        self.peak_bytes = max(self.peak_bytes, self._live_bytes)
        return place

    def drop(self, *places: int | None) -> None:
        """Free tensors; None is a name that was bound to nothing yet."""
        for place in places:
            if place is not None:
                self.order.append(~place)
                self._live_bytes -= self.sizes[place]

    def rebind(self, place: int | None, num_bytes: int) -> int:
        """Allocate a tensor, then free the one before it."""
        rebound = self.make(num_bytes)
        self.drop(place)
        return rebound

    def make_briefly(self, *sizes: int) -> None:
        """Allocate tensors and free them at once."""
        self.drop(*[self.make(num_bytes) for num_bytes in sizes])

    def to_events(self) -> StepEvents:
        """Return what was logged."""
        return StepEvents(sizes=tuple(self.sizes), order=tuple(self.order))


StepRecorder = Callable[[StepLog, Sequence[TrainedTensor], int], None]
"""Records the step of tensors that occur once, of so many bytes an element."""


def record_peak(record: StepRecorder, tensors: Sequence[TrainedTensor], width: int) -> int:
    """Return the highest bytes of a step.

    A tensor's neighbours in memory are those before it in the loop: two of equal layers meet all
    that any number of them do.
    """
    log = StepLog()
    record(log, tuple(unroll(tensors, most=2)), width)
    return log.peak_bytes


def record_events(record: StepRecorder, tensors: Sequence[TrainedTensor], width: int) -> StepEvents:
    """Return everything that a step allocates and frees."""
    log = StepLog()
    record(log, tuple(unroll(tensors)), width)
    return log.to_events()


def unroll(tensors: Sequence[TrainedTensor], most: int | None = None) -> Iterator[TrainedTensor]:
    """Yield every tensor as often as it occurs, layer by layer.

    Equal numbers that stand together are one kind of layer. ``most`` cuts the number of layers.
    """
    for count, members in groupby(tensors, key=attrgetter("count")):
        layer = tuple(members)
        for _ in range(count if most is None else min(count, most)):
            yield from layer

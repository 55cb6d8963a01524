"""Which configuration comes nearest where none is enough, with as few estimates as tell it."""

from collections.abc import Callable, Iterable, Sequence

from service.estimator.values.workload import TrainWorkload
from service.planner.search.layout_options import Batch, Slot
from service.planner.search.layouts import Space
from service.planner.search.memory_bounds import Room
from service.planner.search.replays import Tried, without_shards

Miss = tuple[Slot, Batch]


class Misses:
    """What the smallest batches of slots lack, asked from the largest number of GPUs down."""

    def __init__(self, space: Space, room: Room, least: Callable[[Slot], Tried]) -> None:
        """Know nothing yet; ``least`` estimates the batch of a slot that needs least."""
        self._space, self._room, self._least = space, room, least
        self._trains = isinstance(space.question.workload, TrainWorkload)
        self._known: dict[object, tuple[int, int]] = {}

    def nearest(self, num_gpus: int, *, of_all: bool) -> Miss | None:
        """Return what lacks least on so many GPUs; None where nothing of it can run.

        Where states alone, or with what backward needs, have no room, the one with the least stands for all unless the
        nearest ``of_all`` is asked.
        """
        bounded = self._room.bounded(num_gpus)
        if not bounded:
            slots = sorted(self._space.slots(num_gpus), key=self._room.lacking)
            return self._below(slots) if of_all else self._first(slots)
        if not of_all and not any(map(self._room.roomy, bounded)):
            return self._first(sorted(bounded, key=self._room.lacking_in_backward))
        return self._of_all(bounded)

    def _first(self, slots: Iterable[Slot]) -> Miss | None:
        tried = ((slot, self._least(slot)) for slot in slots)
        return next(((slot, found.batch) for slot, found in tried if found.estimate is not None), None)

    def _below(self, slots: Iterable[Slot]) -> Miss | None:
        """Return the nearest of slots in the order of what their states lack, which is what they lack at least."""
        nearest: tuple[int, Slot, Batch] | None = None
        for slot in slots:
            if nearest is not None and self._room.lacking(slot) >= nearest[0]:
                break
            found = self._least(slot)
            if found.estimate is not None and (nearest is None or found.missing_bytes < nearest[0]):
                nearest = found.missing_bytes, slot, found.batch
        return None if nearest is None else nearest[1:]

    def _of_all(self, slots: Sequence[Slot]) -> Miss | None:
        """Return the nearest of slots, the first of several; none is estimated that lacks more than another on more shards."""
        ranked = sorted((self._at_least(slot), index) for index, slot in enumerate(slots))
        nearest: tuple[int, int, Batch] | None = None
        for lacks, index in ranked:
            if nearest is not None and lacks > nearest[0]:
                break
            slot, found = slots[index], self._least(slots[index])
            if found.estimate is None:
                continue
            self._known[without_shards(slot, found.batch)] = slot.layout.shards, found.missing_bytes
            if nearest is None or (found.missing_bytes, index) < nearest[:2]:
                nearest = found.missing_bytes, index, found.batch
        return None if nearest is None else (slots[nearest[1]], nearest[2])

    def _at_least(self, slot: Slot) -> int:
        """Return what a slot lacks at least: what it was found to lack with as many shards of its states, or more."""
        if not self._trains:
            return 0
        shards, missing = self._known.get(without_shards(slot, self._space.batches(slot)[0]), (0, 0))
        return missing if shards >= slot.layout.shards else 0

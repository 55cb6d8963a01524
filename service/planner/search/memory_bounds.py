"""Which layouts and batches have room by arithmetic alone: bounds that come before any estimate, each worked out once."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from service.planner.fit.evaluator import Subject
from service.planner.search.bounds import states_of
from service.planner.search.layout_options import Batch, Slot
from service.planner.search.layouts import Space


class Room:
    """The layouts of one question on one kind of GPU whose least bytes have room; ``pruned`` counts those that have none."""

    def __init__(self, subject: Subject, space: Space, pruned: Counter[str]) -> None:
        """Work out nothing but the least bytes of the model."""
        self._space, self._usable, self._pruned = space, subject.device.usable_bytes, pruned
        self.num_considered = 0
        self._states = states_of(subject.architecture, space.question.workload)
        self._before_gradients = replace(self._states, gradients=0)
        self._bounded: dict[int, tuple[Slot, ...]] = {}
        self._needs: dict[Slot, int] = {}
        self._roomy: dict[Slot, tuple[Batch, ...]] = {}

    def bounded(self, num_gpus: int) -> tuple[Slot, ...]:
        """Return the slots whose states alone leave room, those that need least first."""
        found = self._bounded.get(num_gpus)
        if found is None:
            found = self._bounded[num_gpus] = self.with_states(self._space.slots(num_gpus))
        return found

    def with_states(self, slots: Iterable[Slot]) -> tuple[Slot, ...]:
        """Return those of some slots whose states have room, those that need least first."""
        kept = []
        for slot in slots:
            needs = self._needs.get(slot)
            if needs is None:
                needs = self._needs[slot] = self._states.of_one(slot)
                layouts = len(self._space.batches(slot))
                self.num_considered += layouts
                self._pruned["states_alone"] += layouts * (needs > self._usable)
            if needs <= self._usable:
                kept.append((needs, slot))
        kept.sort(key=lambda pair: (pair[0], -pair[1].layout.context_parallel))
        return tuple(slot for _, slot in kept)

    def lacking(self, slot: Slot) -> int:
        """Return by how many bytes the states of a slot that was looked at are too large; less than 0 is room."""
        return self._needs[slot] - self._usable

    def lacking_in_backward(self, slot: Slot) -> int:
        """Return by how many bytes the states and what backward needs of the smallest batch are too large, at least."""
        layout, listings = slot.layout, self._space.listings
        split = layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel
        needed = listings.least(self._space.batches(slot)) // split
        return self._before_gradients.of_one(slot) + needed - self._usable

    def roomy(self, slot: Slot) -> tuple[Batch, ...]:
        """Return the batches of which what backward needs has room beside the states, once; gradients come later."""
        found = self._roomy.get(slot)
        if found is None:
            batches = self._space.batches(slot)
            found = self._roomy[slot] = self._with_room(slot, batches)
            self._pruned["activations_alone"] += len(batches) - len(found)
        return found

    def _with_room(self, slot: Slot, batches: tuple[Batch, ...]) -> tuple[Batch, ...]:
        layout = slot.layout
        split = layout.tensor_parallel * layout.pipeline_parallel * layout.context_parallel
        room = (self._usable - self._before_gradients.of_one(slot)) * split
        return self._space.listings.within(batches, room)

"""What follows from the batches of a slot alone: worked out once for all slots that list the same ones.

A space keeps one object for each listing, and this one for each part of it: they are told apart by identity, because a search
asks of thousands of slots and has a few dozen listings.
"""

from bisect import bisect_right
from collections.abc import Sequence

from service.planner.search.bounds import Kept
from service.planner.search.layout_options import Batch, cheapest_of

Chain = tuple[Batch, ...]
"""Batches of one recomputation and accumulation, the largest first."""


class Listings:
    """The batches of one question, by listing."""

    def __init__(self, kept: Kept) -> None:
        """Work out nothing before it is asked; ``kept`` is what backward needs of one sequence."""
        self._kept = kept
        self._needs: dict[int, tuple[tuple[int, Batch], ...]] = {}
        self._levels: dict[int, list[int]] = {}
        self._within: dict[tuple[int, int], tuple[Batch, ...]] = {}
        self._cheapest: dict[int, Batch] = {}
        self._chains: dict[int, tuple[Chain, ...]] = {}

    def within(self, batches: Sequence[Batch], room: int) -> tuple[Batch, ...]:
        """Return the batches of which what backward needs, on all ranks that share their sequences and layers, has room."""
        listing = id(batches)
        if listing not in self._needs:
            self._needs[listing] = tuple((self._need(batch), batch) for batch in batches)
            self._levels[listing] = sorted(need for need, _ in self._needs[listing])
        key = (listing, bisect_right(self._levels[listing], room))
        found = self._within.get(key)
        if found is None:
            found = self._within[key] = tuple(batch for need, batch in self._needs[listing] if need <= room)
        return found

    def least(self, batches: Sequence[Batch]) -> int:
        """Return what backward needs of the batch of which it needs least, on all ranks that share it."""
        self.within(batches, 0)
        return self._levels[id(batches)][0]

    def cheapest(self, batches: Sequence[Batch]) -> Batch:
        """Return a batch with the least time per token of any of these, and less."""
        found = self._cheapest.get(id(batches))
        if found is None:
            found = self._cheapest[id(batches)] = cheapest_of(batches)
        return found

    def chains(self, batches: Sequence[Batch]) -> tuple[Chain, ...]:
        """Return batches by recomputation and accumulation."""
        found = self._chains.get(id(batches))
        if found is None:
            alike: dict[tuple[int, int], list[Batch]] = {}
            for batch in batches:
                alike.setdefault((batch.recomputed, batch.steps), []).append(batch)
            chains = (tuple(sorted(some, key=lambda batch: -batch.micro_batch_size)) for some in alike.values())
            found = self._chains[id(batches)] = tuple(chains)
        return found

    def _need(self, batch: Batch) -> int:
        kept = self._kept.everything if batch.keeps_everything else self._kept.inputs
        return kept * batch.micro_batch_size * batch.flying

"""Derived properties of batch listings, cached for all layouts.

They follow from the batches alone.

A space keeps one object for each listing, and this one for each part of it: they are told apart by
identity, because a search asks of thousands of layouts and has a few dozen listings.
"""

from bisect import bisect_right
from collections.abc import Sequence

from service.planner.search.bounds import SavedActivations
from service.planner.search.layout_options import Batch, build_cheapest_batch

Chain = tuple[Batch, ...]
"""Batches of one recomputation and accumulation, the largest first."""


class Listings:
    """The batches of one question, by listing."""

    def __init__(self, saved: SavedActivations) -> None:
        """Set up empty caches.

        ``saved`` is what backward needs of one sequence.
        """
        self._saved = saved
        self._needs: dict[int, tuple[tuple[int, Batch], ...]] = {}
        self._levels: dict[int, list[int]] = {}
        self._within: dict[tuple[int, int], tuple[Batch, ...]] = {}
        self._cheapest: dict[int, Batch] = {}
        self._chains: dict[int, tuple[Chain, ...]] = {}

    def select_within(self, batches: Sequence[Batch], room: float) -> tuple[Batch, ...]:
        """Return the batches whose backward needs no more than ``room``.

        The bytes are those on all ranks that share their sequences and layers.
        """
        listing = id(batches)
        if listing not in self._needs:
            self._needs[listing] = tuple((self._compute_need(batch), batch) for batch in batches)
            self._levels[listing] = sorted(need for need, _ in self._needs[listing])
        key = (listing, bisect_right(self._levels[listing], room))
        fitting = self._within.get(key)
        if fitting is None:
            fitting = self._within[key] = tuple(
                batch for need, batch in self._needs[listing] if need <= room
            )
        return fitting

    def get_min_need(self, batches: Sequence[Batch]) -> int:
        """Return the least bytes that backward needs of any batch.

        The bytes are those on all ranks that share it.
        """
        self.select_within(batches, 0)
        return self._levels[id(batches)][0]

    def get_cheapest(self, batches: Sequence[Batch]) -> Batch:
        """Return a batch with a lower bound of the time per token.

        Its time is the least of any of these, and less.
        """
        batch = self._cheapest.get(id(batches))
        if batch is None:
            batch = self._cheapest[id(batches)] = build_cheapest_batch(batches)
        return batch

    def list_chains(self, batches: Sequence[Batch]) -> tuple[Chain, ...]:
        """Return batches by recomputation and accumulation."""
        cached = self._chains.get(id(batches))
        if cached is None:
            groups: dict[tuple[int, int], list[Batch]] = {}
            for batch in batches:
                groups.setdefault(
                    (batch.checkpointing_index, batch.gradient_accumulation_steps), []
                ).append(batch)
            chains = (
                tuple(sorted(group, key=lambda batch: -batch.micro_batch_size))
                for group in groups.values()
            )
            cached = self._chains[id(batches)] = tuple(chains)
        return cached

    def _compute_need(self, batch: Batch) -> int:
        saved_bytes = self._saved.everything if batch.keeps_everything else self._saved.inputs
        return saved_bytes * batch.micro_batch_size * batch.micro_batches_in_flight

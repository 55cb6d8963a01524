"""Batches that failed in many shards, which rule out fewer.

A rank of fewer shards holds no less: the same tensors of a pass, and more of every state. What
tensors are filled up with, so that ranks share their rows evenly, is the one part that more shards
may have more of; it counts against a failure.
"""

from bisect import bisect_left
from collections.abc import Mapping
from functools import cached_property
from typing import Protocol

from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout, Sharding
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Method, TrainWorkload, Workload
from service.planner.search.layout_options import Batch, LayoutOption, get_shard_group
from service.planner.search.layouts import SearchSpace
from service.planner.search.splits import DEGREES, Split

MANY_GPUS = 3
"""GPUs from which on communicators take the same."""
_FILLED_BYTES = 32
"""More than an element takes that fills a tensor up: gathered twice, as a gradient, reduced, with
the holes that an interval allows for.
"""
_LIVE = 2
"""Units of a kind that are gathered at once."""


def fails_on_fewer_shards(model: Architecture, workload: Workload) -> bool:
    """Return whether failures rule out fewer shards.

    Those of full training of a decoder do.
    """
    return (
        isinstance(workload, TrainWorkload)
        and workload.method is Method.FULL
        and type(model) is Architecture
    )


class FailedShards:
    """The most shards in which batches of a question had no room."""

    def __init__(self, model: Architecture, workload: Workload) -> None:
        """Start without failures; only full training of a decoder has any."""
        self._is_known = fails_on_fewer_shards(model, workload)
        self._model = model
        self._most: dict[object, int] = {}
        self._filled: dict[tuple[int, int, int], int] = {}

    def record(self, option: LayoutOption, batch: Batch, short_bytes: int) -> None:
        """Record a batch that lacks so many bytes on the GPU itself."""
        layout = option.layout
        if not self._is_known or layout.shards == 1 or short_bytes <= 0:
            return
        if short_bytes <= self._bound_filled_bytes(layout):
            return
        group = get_shard_group(option, batch)
        self._most[group] = max(self._most.get(group, 0), layout.shards)

    def record_larger(self, option: LayoutOption, batch: Batch, *, than: Batch) -> None:
        """Record a batch that needs at least what a failed one does."""
        most = self._most.get(get_shard_group(option, than), 0)
        if most >= option.layout.shards:
            group = get_shard_group(option, batch)
            self._most[group] = max(self._most.get(group, 0), most)

    def covers(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch has failed in more shards."""
        layout = option.layout
        return layout.num_gpus >= MANY_GPUS and layout.shards < self._most.get(
            get_shard_group(option, batch), 0
        )

    def covers_fewer(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch has failed in as many shards."""
        return option.layout.shards <= self._most.get(get_shard_group(option, batch), 0)

    def _bound_filled_bytes(self, layout: Layout) -> int:
        """Return more bytes than tensors are filled up with.

        FSDP2 alone fills rows up; what others share is rounded up, which more shards make less.
        """
        if layout.sharding is not Sharding.FSDP2:
            return 0
        degrees = layout.shards, layout.tensor_parallel, layout.expert_parallel
        filled = self._filled.get(degrees)
        if filled is None:
            filled = self._filled[degrees] = sum(
                _bound_filled_rows(weight.shape[0], *degrees)
                * (weight.numel // weight.shape[0])
                * _FILLED_BYTES
                * min(count, _LIVE)
                for weight, count in self._model.counts.tensors
            )
        return filled


class Room(Protocol):
    """Verdicts on batches, and memory of those without room."""

    def fits(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch may have room."""

    def is_ruled_out(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch has failed in more shards."""


class FailuresAhead:
    """Search for the most GPUs that leave a batch without room.

    A search that goes on to more GPUs would try it again on each.
    """

    def __init__(self, space: SearchSpace, room: Room) -> None:
        """Set up without looking at any layout; ``room`` records what fails."""
        self._space, self._room = space, room
        self._is_known = fails_on_fewer_shards(space.model, space.question.workload)
        self._looked_at: set[object] = set()

    def fits(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch may have room.

        Where it has none it is ruled out on more GPUs as well.
        """
        fits = self._room.fits(option, batch)
        if not fits:
            self._rule_out(option, batch)
        return fits

    def _rule_out(self, option: LayoutOption, batch: Batch) -> None:
        """Rule out a batch up to where it has room.

        The largest number of GPUs is tried first, then the interval is halved. Nothing is ruled out
        by that order: each failure covers fewer shards by itself.
        """
        group = get_shard_group(option, batch)
        if not self._is_known or group in self._looked_at:
            return
        self._looked_at.add(group)
        ranks = option.layout.num_gpus // option.layout.data_parallel
        counts = [count for count in self._space.counts if not count % ranks]
        failed, fitting = bisect_left(counts, option.layout.num_gpus), len(counts)
        while fitting - failed > 1:
            middle = len(counts) - 1 if fitting == len(counts) else (failed + fitting) // 2
            alike = self._find_alike(option, counts[middle])
            if (
                alike is not None
                and batch in self._space.list_batches(alike)
                and not self._room.fits(alike, batch)
                and self._room.is_ruled_out(option, batch)
            ):
                failed = middle
            else:
                fitting = middle

    @cached_property
    def _splits(self) -> Mapping[tuple[str, tuple[int, ...]], Split]:
        return {(split.strategy.name, split.degrees): split for split in self._space.splits.listed}

    def _find_alike(self, option: LayoutOption, num_gpus: int) -> LayoutOption | None:
        """Return the option that differs in data-parallel ranks alone."""
        layout = option.layout
        degrees = tuple(getattr(layout, name) for name in DEGREES)
        split = self._splits[option.strategy.name, degrees]
        stage, offload = layout.zero_stage, option.offload
        return next(
            (
                other
                for other in self._space.list_split_options(split, num_gpus)
                if other.layout.zero_stage == stage and other.offload == offload
            ),
            None,
        )


def _bound_filled_rows(rows: int, shards: int, tensor: int, expert: int) -> int:
    """Return a bound of the rows that fill a part up.

    It is of one rank's part of a tensor.

    Tensor and expert ranks may have split its rows before; experts are shared by fewer ranks.
    """
    return max(
        -ceil_div(rows, divisor) % sharing
        for divisor in (1, tensor, expert, tensor * expert)
        for sharing in (shards, max(shards // expert, 1))
    )

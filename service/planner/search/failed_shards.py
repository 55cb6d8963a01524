"""Batches that failed in many shards, which rule out fewer.

A rank of fewer shards holds no less: the same tensors of a pass, and more of every state. What
tensors are filled up with, so that ranks share their rows evenly, is the one part that more shards
may have more of; it counts against a failure.
"""

from service.estimator.model.architecture import Architecture
from service.estimator.values.layout import Layout
from service.estimator.values.units import ceil_div
from service.estimator.values.workload import Method, TrainWorkload, Workload
from service.planner.search.layout_options import Batch, LayoutOption
from service.planner.search.replays import get_shard_group

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
        """Return more bytes than tensors are filled up with."""
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

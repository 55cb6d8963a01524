"""Configurations that are worth a replay of the allocator.

Their numbers do not suffice.
"""

from collections.abc import Iterable
from dataclasses import replace

from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Framework, Workload
from service.planner.fit.evaluator import Evaluator
from service.planner.search.layout_options import Batch, LayoutOption
from service.planner.search.tried_batches import TriedBatch, TriedBatches

MAX_REPLAYED = 3
"""Configurations of one GPU count that are replayed although their numbers do not suffice.

A replay may reserve less.
"""
_REPLAYED = frozenset({None, Framework.TRANSFORMERS})
"""Only transformers' steps and replicas, which no framework trains, are replayed: what other
frameworks reserve is a ratio in either answer.
"""


def find_nearest_to_replay(
    tried: Iterable[tuple[LayoutOption, TriedBatch]], usable_bytes: int
) -> list[LayoutOption]:
    """Return the options that lack least, the nearest first.

    Of those that may be replayed only some count: whose allocated bytes alone have room.
    """
    near = [
        (trial.missing_bytes, index, option)
        for index, (option, trial) in enumerate(tried)
        if trial.estimate is not None
        and trial.missing_bytes
        and trial.estimate.allocated_bytes <= usable_bytes
    ]
    return [option for _, _, option in sorted(near, key=lambda entry: entry[:2])[:MAX_REPLAYED]]


def may_be_replayed(option: LayoutOption) -> bool:
    """Return whether the allocator is replayed over an option's configurations."""
    return option.strategy.framework in _REPLAYED


def make_at_best(evaluator: Evaluator) -> Evaluator:
    """Return an evaluator whose numbers are those without any hole.

    No replay needs less. Where what was measured of the reserved bytes leaves no bound, the holes
    of the numbers are left out.
    """

    def estimate_at_best(workload: Workload, layout: Layout) -> Estimate:
        bound = evaluator.lower_bound(workload, layout)
        return (
            _remove_holes(evaluator.estimate_numbers(workload, layout)) if bound is None else bound
        )

    return replace(evaluator, outlined=estimate_at_best)


def _remove_holes(estimate: Estimate) -> Estimate:
    holes = estimate.reserved_bytes - estimate.allocated_bytes
    high_holes = estimate.reserved_interval.high - estimate.allocated_interval.high
    interval = estimate.device_interval
    return replace(
        estimate,
        device_bytes=estimate.device_bytes - holes,
        device_interval=replace(interval, high=interval.high - high_holes),
    )


class PossibleBatches:
    """Batches that have room by their numbers or without holes."""

    def __init__(self, batches: TriedBatches, at_best: TriedBatches) -> None:
        """Join the batches by their numbers and by those without any hole."""
        self._batches, self._at_best = batches, at_best

    def is_open(self, option: LayoutOption) -> bool:
        """Return whether some batch of an option may have room."""
        return self._batches.is_open(option) or (
            may_be_replayed(option) and self._at_best.is_open(option)
        )

    def fits(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch may have room."""
        return self._batches.fits(option, batch) or (
            may_be_replayed(option) and self._at_best.fits(option, batch)
        )

    def is_ruled_out(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch has failed in more shards, without holes too."""
        return self._batches.has_failed_on_more_shards(option, batch) and (
            not may_be_replayed(option) or self._at_best.has_failed_on_more_shards(option, batch)
        )

    def try_smallest(self, option: LayoutOption) -> bool:
        """Return whether the least batch of an option fits by its numbers.

        Where it does not it rules others out.
        """
        batch = self._batches.get_smallest(option)
        if self._batches.fits(option, batch):
            return True
        if may_be_replayed(option):
            self._at_best.fits(option, batch)
        return False

    def stays_too_large(self, option: LayoutOption) -> bool:
        """Return whether no batch of an option may have room on fewer."""
        return self._batches.stays_too_large(option) and (
            not may_be_replayed(option) or self._at_best.stays_too_large(option)
        )

    def has_failed_on_more_shards(self, option: LayoutOption, batch: Batch) -> bool:
        """Return whether a batch has failed in more shards without holes."""
        return self._at_best.has_failed_on_more_shards(option, batch)

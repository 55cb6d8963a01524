"""Configurations that are worth a replay of the allocator.

Their numbers do not suffice.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.values.result import Estimate
from service.estimator.values.workload import Framework
from service.planner.search.layout_options import Batch, LayoutOption

MAX_REPLAYED = 3
"""Configurations of one GPU count that are replayed although their numbers do not suffice.

A replay may reserve less.
"""
_REPLAYED = frozenset({None, Framework.TRANSFORMERS})
"""Only transformers' steps and replicas, which no framework trains, are replayed: what other
frameworks reserve is a ratio in either answer.
"""


@dataclass(frozen=True, slots=True)
class TriedBatch:
    """Result of one batch of a layout.

    There is no estimate where it was refused.
    """

    batch: Batch
    estimate: Estimate | None
    missing_bytes: int


def find_nearest_to_replay(
    tried: Iterable[tuple[LayoutOption, TriedBatch]], usable_bytes: int
) -> list[LayoutOption]:
    """Return the options that lack least, the nearest first.

    Only those count whose allocated bytes alone have room.
    """
    near = [
        (trial.missing_bytes, index, option)
        for index, (option, trial) in enumerate(tried)
        if trial.estimate is not None
        and option.strategy.framework in _REPLAYED
        and trial.missing_bytes
        and trial.estimate.allocated_bytes <= usable_bytes
    ]
    return [option for _, _, option in sorted(near, key=lambda entry: entry[:2])[:MAX_REPLAYED]]


class ReplayCandidates:
    """A budget of configurations to replay though their numbers are too large.

    They are taken in the order in which they come.
    """

    def __init__(self, usable_bytes: int, *, is_confident: bool) -> None:
        """Start with an empty budget.

        With confidence the upper ends have to have room.
        """
        self.remaining = 0
        self._usable, self._is_confident = usable_bytes, is_confident

    def accept(self, option: LayoutOption, tried: TriedBatch | None) -> bool:
        """Accept a configuration that is worth a replay.

        It would have room if the allocator left no hole.
        """
        if (
            not self.remaining
            or tried is None
            or tried.estimate is None
            or option.strategy.framework not in _REPLAYED
        ):
            return False
        estimate = tried.estimate
        holes = estimate.reserved_bytes - estimate.allocated_bytes
        needs = estimate.device_bytes
        if self._is_confident:
            holes = estimate.reserved_interval.high - estimate.allocated_interval.high
            needs = estimate.device_interval.high
        is_near = needs - holes <= self._usable
        self.remaining -= is_near
        return is_near


def get_length_group(option: LayoutOption, batch: Batch) -> object:
    """Return the key of options that differ in sequence splitting only.

    They differ in context-parallel ranks and in how many ranks share a sequence alone.
    """
    layout = option.layout
    degrees = (
        layout.tensor_parallel,
        layout.pipeline_parallel,
        layout.expert_parallel,
        layout.shards,
        layout.zero_stage,
    )
    return option.strategy.name, degrees, option.offload, option.quantization, batch


def get_shard_group(option: LayoutOption, batch: Batch) -> object:
    """Return the key of options that differ in state shards only.

    They differ in how many ranks share their states, and in nothing else.
    """
    layout = option.layout
    degrees = (
        layout.tensor_parallel,
        layout.pipeline_parallel,
        layout.expert_parallel,
        layout.context_parallel,
    )
    return option.strategy.name, degrees, layout.zero_stage, option.offload, batch

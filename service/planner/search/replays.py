"""Configurations that are worth a replay of the allocator.

Their numbers do not suffice.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Framework, Workload
from service.planner.fit.evaluator import Evaluator
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

"""Which configurations are worth a replay of the allocator, although their numbers do not suffice."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.values.result import Estimate
from service.estimator.values.workload import Framework
from service.planner.search.layout_options import Batch, Slot

MAX_REPLAYED = 3
"""Configurations of one number of GPUs that are replayed although their numbers do not suffice: a replay may reserve less.

Only transformers' steps are replayed: what other frameworks reserve is a ratio in either answer.
"""


@dataclass(frozen=True, slots=True)
class Tried:
    """What came of one batch of a slot; no estimate where it was refused."""

    batch: Batch
    estimate: Estimate | None
    missing_bytes: int


def nearest_to_replay(tried: Iterable[tuple[Slot, Tried]], usable_bytes: int) -> list[Slot]:
    """Return the slots that lack least of those whose allocated bytes alone have room, the nearest first."""
    near = [
        (one.missing_bytes, index, slot)
        for index, (slot, one) in enumerate(tried)
        if one.estimate is not None
        and slot.way.framework is Framework.TRANSFORMERS
        and one.missing_bytes
        and one.estimate.allocated_bytes <= usable_bytes
    ]
    return [slot for _, _, slot in sorted(near, key=lambda found: found[:2])[:MAX_REPLAYED]]


class Ahead:
    """A few configurations that are replayed though their numbers are too large, in the order in which they come."""

    def __init__(self, usable_bytes: int, *, is_confident: bool) -> None:
        """Take none before it is said how many; with confidence the upper ends have to have room."""
        self.left = 0
        self._usable, self._is_confident = usable_bytes, is_confident

    def takes(self, slot: Slot, tried: Tried | None) -> bool:
        """Whether a configuration is worth a replay: it would have room if the allocator left no hole."""
        if not self.left or tried is None or tried.estimate is None or slot.way.framework is not Framework.TRANSFORMERS:
            return False
        found = tried.estimate
        holes = found.reserved_bytes - found.allocated_bytes
        needs = found.device_bytes
        if self._is_confident:
            holes = found.reserved_interval.high - found.allocated_interval.high
            needs = found.device_interval.high
        is_near = needs - holes <= self._usable
        self.left -= is_near
        return is_near


def alike(slot: Slot, batch: Batch) -> object:
    """Return what slots have in common that differ in context-parallel ranks and in how many ranks share a sequence alone."""
    layout = slot.layout
    degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, layout.shards, layout.zero_stage)
    return slot.way.name, degrees, slot.offload, slot.quantization, batch


def without_shards(slot: Slot, batch: Batch) -> object:
    """Return what slots have in common that differ in how many ranks share their states, and in nothing else."""
    layout = slot.layout
    degrees = (layout.tensor_parallel, layout.pipeline_parallel, layout.expert_parallel, layout.context_parallel)
    return slot.way.name, degrees, layout.zero_stage, slot.offload, batch

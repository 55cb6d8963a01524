"""Which configurations are worth a replay of the allocator, although their numbers do not suffice."""

from collections.abc import Iterable
from dataclasses import dataclass

from service.estimator.result import Estimate
from service.estimator.workload import Framework
from service.planner.layouts import Batch, Slot

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

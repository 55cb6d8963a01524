"""What lies beyond the allocated bytes: the allocator's slack, the CUDA context, communicators. Each is an interval."""

from dataclasses import dataclass
from functools import lru_cache

from service.estimator.memory.overheads.cuda_context import context_of
from service.estimator.values.result import Interval
from service.estimator.values.units import GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A point value and its 95 % interval, in bytes."""

    point: int
    low: int
    high: int
    formula: str
    source: str


@lru_cache(maxsize=256)
def device_context(gpu: str = "") -> Share:
    """Return the CUDA context with its libraries and loaded kernels, on a GPU of this name."""
    found = context_of(gpu)
    return Share(point=found.point, low=found.low, high=found.high, formula=found.formula, source=found.source)


@lru_cache(maxsize=64)
def communicators(num_gpus: int) -> Share:
    """Return NCCL's buffers outside the allocator; a job on one GPU has none."""
    if num_gpus == 1:
        return Share(point=0, low=0, high=0, formula="one GPU, no communicator", source="NCCL")
    point = 342_000_000 if num_gpus == 2 else 392_000_000  # noqa: PLR2004 - the table's own rows
    return Share(
        point=point,
        low=point // 2,
        high=GIB,
        formula=f"one communicator of {num_gpus} ranks",
        source="aiconfigurator's NCCL table: 342, 392, 392 MB for 2, 4, 8 GPUs; up to 1 GiB seen",
    )


def interval(base: Interval, shares: tuple[Share, ...]) -> Interval:
    """Return the interval of a base and of what lies on top of it."""
    low, high = base.low, base.high
    for share in shares:
        low, high = low + share.low, high + share.high
    return Interval(low, high)

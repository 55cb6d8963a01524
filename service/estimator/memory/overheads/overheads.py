"""Overheads beyond the allocated bytes, each with an interval.

They are the allocator's slack, the CUDA context and communicators.
"""

from dataclasses import dataclass

from service.estimator.memory.overheads.cuda_context import find_context
from service.estimator.values.classes.quick_init import init_quickly
from service.estimator.values.memo import keep_latest
from service.estimator.values.result import Interval
from service.estimator.values.units import GIB


@init_quickly
@dataclass(frozen=True, slots=True, kw_only=True)
class Overhead:
    """Overhead in bytes: a point value and its 95 % interval."""

    point: int
    low: int
    high: int
    formula: str
    source: str


@keep_latest(256)
def get_context_overhead(gpu: str = "", kind: str = "") -> Overhead:
    """Return the CUDA context on a GPU of this name.

    Its libraries and the kernels that a kind of run loads are included.
    """
    context = find_context(gpu, kind)
    return Overhead(
        point=context.point,
        low=context.low,
        high=context.high,
        formula=context.formula,
        source=context.source,
    )


@keep_latest(64)
def estimate_communicators(num_gpus: int) -> Overhead:
    """Return NCCL's buffers outside the allocator.

    A job on one GPU has none.
    """
    if num_gpus == 1:
        return Overhead(point=0, low=0, high=0, formula="one GPU, no communicator", source="NCCL")
    point = 342_000_000 if num_gpus == 2 else 392_000_000  # noqa: PLR2004 - the table's own rows
    return Overhead(
        point=point,
        low=point // 2,
        high=GIB,
        formula=f"one communicator of {num_gpus} ranks",
        source="aiconfigurator's NCCL table: 342, 392, 392 MB for 2, 4, 8 GPUs; up to 1 GiB seen",
    )


def add_up(below: Overhead, above: Overhead) -> Overhead:
    """Return the bytes of two overheads as one, without their words."""
    return Overhead(
        point=below.point + above.point,
        low=below.low + above.low,
        high=below.high + above.high,
        formula="",
        source="",
    )


def add_overheads(base: Interval, overheads: tuple[Overhead, ...]) -> Interval:
    """Return the interval of a base with overheads on top of it."""
    low, high = base.low, base.high
    for overhead in overheads:
        low, high = low + overhead.low, high + overhead.high
    return Interval(low, high)

"""What lies beyond the allocated bytes: the allocator's slack, the CUDA context, communicators. Each is an interval."""

from dataclasses import dataclass

from service.estimator.result import Interval
from service.estimator.units import GIB, MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A point value and its 95 % interval, in bytes."""

    point: int
    low: int
    high: int
    formula: str
    source: str


_LARGE_BYTES = 10_000_000_000
_RATIOS_PER_MILLE = {"large": (1003, 1054, 1257), "small": (1005, 1068, 1320)}
"""reserved / allocated x 1000 at 2.5 %, 50 % and 97.5 %: the caching allocator replayed over 298 traced training steps;
large is the 191 of them that allocate more than 10 GB."""
_GATHERING_PER_MILLE = (1103, 1315, 1558)
"""The same of 23 traced ranks of FSDP2: gathered weights and full-size gradients of many sizes come and go between
activations, and leave holes."""
SLACK_SOURCE = "caching allocator replayed over 298 traced training steps (2.5 %, 50 %, 97.5 %)"
GATHERING_SOURCE = "caching allocator replayed over 23 traced ranks of FSDP2 (2.5 %, 50 %, 97.5 %)"


def allocator_slack(allocated_bytes: int, *, gathers: bool) -> Share:
    """Return reserved minus allocated: what the caching allocator keeps in blocks that do not fit the next request.

    ``gathers``: parameters are gathered and reduced block by block.

    Larger jobs lose a smaller share; between the two classes the bytes stay level, so that more allocated never reserves less.
    """
    if gathers:
        low, point, high = (allocated_bytes * (ratio - 1000) // 1000 for ratio in _GATHERING_PER_MILLE)
        return Share(point=point, low=low, high=high, formula="allocated x 0.315", source=GATHERING_SOURCE)
    low, point, high = (
        max(allocated_bytes * (large - 1000), min(allocated_bytes, _LARGE_BYTES) * (small - 1000)) // 1000
        for large, small in zip(_RATIOS_PER_MILLE["large"], _RATIOS_PER_MILLE["small"], strict=True)
    )
    share = point / allocated_bytes if allocated_bytes else 0.0
    return Share(point=point, low=low, high=high, formula=f"allocated x {share:.3f}", source=SLACK_SOURCE)


def device_context() -> Share:
    """Return the CUDA context with its loaded kernels."""
    return Share(
        point=512 * MIB,
        low=256 * MIB,
        high=800 * MIB,
        formula="512 MiB per process",
        source="H100: 79.19 GiB total, 78.68 free with a context (vLLM logs); RTX 3090 0.35 GiB non-torch",
    )


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
    return Interval(base.low + sum(share.low for share in shares), base.high + sum(share.high for share in shares))

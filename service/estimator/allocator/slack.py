"""What the caching allocator reserves beyond the allocated bytes: replayed where the order of a pass is known, else a ratio."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.estimator.allocator.replay import Replayed
from service.estimator.outside import Share
from service.estimator.workload import Allocator

_LARGE_BYTES = 10_000_000_000
Ratios = tuple[int, int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Measured:
    """reserved / allocated x 1000 at 2.5 %, 50 % and 97.5 %: training small, beyond 10 GB, on sharded ranks; and serving."""

    small: Ratios
    large: Ratios
    gathering: Ratios
    serving: Ratios


_RATIOS: Mapping[Allocator, _Measured] = MappingProxyType(
    {
        Allocator.DEFAULT: _Measured(
            small=(1005, 1068, 1320), large=(1003, 1054, 1257), gathering=(1103, 1315, 1558), serving=(1001, 1012, 1101)
        ),
        Allocator.EXPANDABLE_SEGMENTS: _Measured(
            small=(1004, 1048, 1229), large=(1000, 1011, 1109), gathering=(1023, 1153, 1335), serving=(1000, 1003, 1071)
        ),
    }
)
"""Of 298 traced training steps, 192 of them large, and of 26 traced ranks of FSDP2 on more than one GPU: gathered weights and
full-size gradients of many sizes come and go between activations, and leave holes. Of 49 traced serving runs, whose weights
fill segments of their own (``python -m tests.accuracy.serving_slack``)."""
_STEPS = "caching allocator replayed over 298 traced training steps (2.5 %, 50 %, 97.5 %)"
_RANKS = "caching allocator replayed over 26 traced ranks of FSDP2 (2.5 %, 50 %, 97.5 %)"

_SERVING = "caching allocator replayed over 49 serving runs (2.5 %, 50 %, 97.5 %)"
_REPLAY = "c10/cuda/CUDACachingAllocator.cpp replayed over load and two steps of this job"


def ratio_slack(allocated_bytes: int, kind: Allocator, *, gathers: bool) -> Share:
    """Return reserved minus allocated, where only the allocated bytes are known.

    ``gathers``: parameters are gathered and reduced block by block. Larger jobs lose a smaller share; between the two classes
    the bytes stay level, so that more allocated never reserves less.
    """
    measured = _RATIOS[kind]
    if gathers:
        low, point, high = (allocated_bytes * (ratio - 1000) // 1000 for ratio in measured.gathering)
        return Share(point=point, low=low, high=high, formula=_times(point, allocated_bytes), source=_RANKS)
    bounded = min(allocated_bytes, _LARGE_BYTES)
    low, point, high = [
        max(allocated_bytes * (large - 1000), bounded * (small - 1000)) // 1000
        for large, small in zip(measured.large, measured.small, strict=True)
    ]
    return Share(point=point, low=low, high=high, formula=_times(point, allocated_bytes), source=_STEPS)


def serving_slack(allocated_bytes: int, kind: Allocator) -> Share:
    """Return reserved minus allocated of a replica: most of its bytes are weights, which come once and stay."""
    low, point, high = (allocated_bytes * (ratio - 1000) // 1000 for ratio in _RATIOS[kind].serving)
    return Share(point=point, low=low, high=high, formula=_times(point, allocated_bytes), source=_SERVING)


def replayed_slack(replayed: Replayed) -> Share:
    """Return reserved minus allocated as a replay has it; how far it is from a reading is known of kinds of answers."""
    reserved, allocated_bytes = replayed.reserved_bytes, replayed.peak_bytes
    slack = reserved - allocated_bytes
    return Share(
        point=slack,
        low=slack,
        high=slack,
        formula=f"{reserved:,} B in segments of the {replayed.kind.value.replace('_', ' ')} allocator - {allocated_bytes:,} B",
        source=_REPLAY,
    )


def beside_streams(slack: Share, stream_bytes: int) -> Share:
    """Return the slack of the pool that computes, and what the pools of other streams hold beyond the peak."""
    return Share(
        point=slack.point + stream_bytes,
        low=slack.low + stream_bytes,
        high=slack.high + stream_bytes,
        formula=f"{slack.formula} + {stream_bytes:,} B in the pools of FSDP2's communication streams",
        source=f"{slack.source}; a pool per stream (c10/cuda/CUDACachingAllocator.cpp)",
    )


def _times(point: int, allocated_bytes: int) -> str:
    return f"allocated x {point / allocated_bytes if allocated_bytes else 0.0:.3f}"

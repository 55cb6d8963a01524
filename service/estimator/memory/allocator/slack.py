"""Bytes that the caching allocator reserves beyond the allocated ones.

They are replayed where the order of a pass is known, else a ratio.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.intervals.allocator_ratios import RATIOS
from service.estimator.memory.intervals.ends import LEVEL, PER_MILLION, get_level_index
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.memo import keep_latest
from service.estimator.values.workload import Allocator

_LARGE_BYTES = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Medians:
    """Medians of reserved / allocated x 1000.

    They are those of training small, beyond 10 GB, on sharded ranks; and of serving.
    """

    small: int
    large: int
    gathering: int
    serving: int


_MEDIANS: Mapping[Allocator, _Medians] = MappingProxyType(
    {
        Allocator.DEFAULT: _Medians(small=1068, large=1054, gathering=1315, serving=1012),
        Allocator.EXPANDABLE_SEGMENTS: _Medians(
            small=1048, large=1011, gathering=1153, serving=1003
        ),
    },
)
"""Of 298 traced training steps, 192 of them large, and of 26 traced ranks of FSDP2 on more than one
GPU: gathered weights and full-size gradients of many sizes come and go between activations, and
leave holes. Of 49 traced serving runs, whose weights fill segments of their own (``python -m
tests.accuracy.widths.serving_slack``). The ends of each level stand in the interval table.
"""
_STEPS = "caching allocator replayed over 298 traced training steps: the median"
_RANKS = "caching allocator replayed over 26 traced ranks of FSDP2: the median"
_SERVING = "caching allocator replayed over 49 serving runs: the median"
_REPLAY = "c10/cuda/CUDACachingAllocator.cpp replayed over load and two steps of this job"


def estimate_ratio_slack(
    allocated_bytes: int, kind: Allocator, *, gathers: bool, level: float = LEVEL
) -> Overhead:
    """Return reserved minus allocated, where only the allocated bytes are known.

    ``gathers``: parameters are gathered and reduced block by block. Larger jobs lose a smaller
    share; between the two classes the bytes stay level, so that more allocated never reserves less.
    """
    medians = _MEDIANS[kind]
    if gathers:
        return _make_overhead(
            allocated_bytes, _get_ratios(kind, "gathering", medians.gathering, level), _RANKS
        )
    bounded = min(allocated_bytes, _LARGE_BYTES)
    small_point, small_low, small_high = _get_ratios(kind, "small", medians.small, level)
    large_point, large_low, large_high = _get_ratios(kind, "large", medians.large, level)
    point = max(allocated_bytes * large_point, bounded * small_point) // PER_MILLION
    low = max(allocated_bytes * large_low, bounded * small_low) // PER_MILLION
    high = max(allocated_bytes * large_high, bounded * small_high) // PER_MILLION
    return Overhead(
        point=point,
        low=low,
        high=high,
        formula=_format_ratio(point, allocated_bytes),
        source=_STEPS,
    )


def estimate_serving_slack(
    allocated_bytes: int, kind: Allocator, *, level: float = LEVEL
) -> Overhead:
    """Return reserved minus allocated of a replica.

    Most of its bytes are weights, which come once and stay.
    """
    return _make_overhead(
        allocated_bytes, _get_ratios(kind, "serving", _MEDIANS[kind].serving, level), _SERVING
    )


@keep_latest(256)
def _get_ratios(kind: Allocator, runs: str, median: int, level: float) -> tuple[int, int, int]:
    """Return slack over allocated of a class of runs.

    It is in parts per million: the median and both ends of a level.
    """
    (lows, highs), index, point = (
        RATIOS[kind.value, runs],
        get_level_index(level),
        (median - 1000) * 1000,
    )
    return point, min(lows[index], point), max(highs[index], point)


def _make_overhead(allocated_bytes: int, ratios: tuple[int, int, int], source: str) -> Overhead:
    point, low, high = (allocated_bytes * ratio // PER_MILLION for ratio in ratios)
    return Overhead(
        point=point,
        low=low,
        high=high,
        formula=_format_ratio(point, allocated_bytes),
        source=source,
    )


def get_replayed_slack(replayed: ReplayResult) -> Overhead:
    """Return reserved minus allocated of a replay, and minus its workspaces.

    Its distance from a reading is known by kind of answer.
    """
    return _make_replayed_slack(
        replayed.reserved_bytes, replayed.peak_bytes, replayed.workspace_bytes, replayed.kind
    )


@keep_latest(2048)
def _make_replayed_slack(reserved: int, peak: int, workspaces: int, kind: Allocator) -> Overhead:
    """Return the slack of a replay, described once for all levels."""
    slack = reserved - peak - workspaces
    return Overhead(
        point=slack,
        low=slack,
        high=slack,
        formula=(
            f"{reserved:,} B in segments of the {kind.value.replace('_', ' ')} allocator "
            f"- {peak:,} B" + (f" - {workspaces:,} B" if workspaces else "")
        ),
        source=_REPLAY,
    )


def add_stream_pools(slack: Overhead, stream_bytes: int) -> Overhead:
    """Return the slack with the pools of other streams.

    Those pools hold bytes beyond the peak of the pool that computes.
    """
    return Overhead(
        point=slack.point + stream_bytes,
        low=slack.low + stream_bytes,
        high=slack.high + stream_bytes,
        formula=(
            f"{slack.formula} + {stream_bytes:,} B in the pools of FSDP2's communication streams"
        ),
        source=f"{slack.source}; a pool per stream (c10/cuda/CUDACachingAllocator.cpp)",
    )


def _format_ratio(point: int, allocated_bytes: int) -> str:
    return f"allocated x {point / allocated_bytes if allocated_bytes else 0.0:.3f}"

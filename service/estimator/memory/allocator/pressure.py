"""Allocator slack on a full GPU.

Cached segments go back before a request fails. c10/cuda/CUDACachingAllocator.cpp (torch 2.13),
``malloc``: a segment that the GPU refuses is requested again after every segment without a block in
use was released (``release_cached_blocks``); only then is it out of memory. So a job that would
reserve more than there is runs on, in all of it, as long as its blocks in use find room with the
splits between them.
"""

from dataclasses import replace

from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.workload import Allocator

MIN_RUNNING_PER_MILLE = 1043
"""The least that a job runs in over what it allocates, x 1000: median of 58 traced training steps,
replayed in ever less memory until they failed (1001 at 2.5 %, 1200 at 97.5 %).
"""
_SOURCE = (
    "c10/cuda/CUDACachingAllocator.cpp: segments without a block in use are released before a "
    "request fails"
)


def limit_slack(
    slack: Overhead, allocated_bytes: int, room_bytes: int, kind: Allocator
) -> Overhead:
    """Return the slack that fits in ``room_bytes``.

    It stays as it is where the job does not run in them. The interval stays.
    """
    runs = allocated_bytes * MIN_RUNNING_PER_MILLE // 1000 <= room_bytes
    if kind is not Allocator.DEFAULT or allocated_bytes + slack.point <= room_bytes or not runs:
        return slack
    free_bytes = room_bytes - allocated_bytes
    return replace(
        slack,
        point=free_bytes,
        low=min(slack.low, free_bytes),
        formula=(
            f"all of the {room_bytes:,} B that are left, of {allocated_bytes + slack.point:,} B "
            "that it would take"
        ),
        source=f"{slack.source}; {_SOURCE}",
    )

"""What is reserved on a GPU that has no more to give: cached segments go back before a request fails.

c10/cuda/CUDACachingAllocator.cpp (torch 2.13), ``malloc``: a segment that the GPU refuses is asked for again after every
segment without a block in use was released (``release_cached_blocks``); only then is it out of memory. So a job that would
reserve more than there is runs on, in all of it, as long as what is in use finds room with the splits between it.
"""

from dataclasses import replace

from service.estimator.memory.overheads.overheads import Share
from service.estimator.values.workload import Allocator

LEAST_PER_MILLE = 1043
"""The least that a job runs in over what it allocates, x 1000: median of 58 traced training steps, replayed in ever less memory
until they failed (1001 at 2.5 %, 1200 at 97.5 %)."""
_SOURCE = "c10/cuda/CUDACachingAllocator.cpp: segments without a block in use are released before a request fails"


def under_pressure(slack: Share, allocated_bytes: int, room_bytes: int, kind: Allocator) -> Share:
    """Return the slack that fits in ``room_bytes``, where the job runs in them; else as it is. The interval stays."""
    runs = allocated_bytes * LEAST_PER_MILLE // 1000 <= room_bytes
    if kind is not Allocator.DEFAULT or allocated_bytes + slack.point <= room_bytes or not runs:
        return slack
    left = room_bytes - allocated_bytes
    return replace(
        slack,
        point=left,
        low=min(slack.low, left),
        formula=f"all of the {room_bytes:,} B that are left, of {allocated_bytes + slack.point:,} B that it would take",
        source=f"{slack.source}; {_SOURCE}",
    )

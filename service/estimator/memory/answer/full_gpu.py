"""Reserved bytes of a job that fills its GPU.

A job that would reserve more than there is runs on, in all of it, as long as its blocks in use find
room once cached memory was released (``allocator/pressure.py``).
"""

from dataclasses import replace

from service.estimator.memory.allocator.replay import ReplayResult
from service.estimator.memory.answer.partial_estimate import PartialEstimate
from service.estimator.memory.intervals.ends import PER_MILLION
from service.estimator.memory.overheads.overheads import Overhead
from service.estimator.values.corrections import Corrections
from service.estimator.values.device import Device
from service.estimator.values.result import Interval
from service.estimator.values.workload import Allocator

MIN_RUNNING_PER_MILLE = 1043
"""The least that a job runs in over what it allocates, x 1000, where nothing is replayed: median of
58 traced training steps, replayed in ever less memory until they failed (1001 at 2.5 %, 1200 at
97.5 %).
"""
_SOURCE = (
    "c10/cuda/CUDACachingAllocator.cpp: segments without a block in use are released before a "
    "request fails"
)


def limit_slack(
    slack: Overhead,
    allocated_bytes: int,
    room_bytes: int,
    kind: Allocator,
    replayed: ReplayResult | None = None,
) -> Overhead:
    """Return the slack that fits in ``room_bytes``, workspaces left out of both.

    It stays as it is where the job does not run in them. The interval stays.
    """
    if allocated_bytes + slack.point <= room_bytes:
        return slack
    free_bytes = room_bytes - allocated_bytes
    if replayed is not None:
        reserved = replayed.run_within(room_bytes + replayed.workspace_bytes)
        if reserved is None:
            return slack
        free_bytes = min(max(reserved - replayed.workspace_bytes - allocated_bytes, 0), free_bytes)
    elif (
        kind is not Allocator.DEFAULT
        or allocated_bytes * MIN_RUNNING_PER_MILLE // 1000 > room_bytes
    ):
        return slack
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


def select_replay(
    partial_estimate: PartialEstimate, corrections: Corrections | None
) -> ReplayResult | None:
    """Return the replay by which a full GPU is judged.

    There is none where something measured corrects it, nor of a job of several GPUs: what its
    streams hold back is in no recording.
    """
    is_judged = corrections is None and partial_estimate.linked_gpus == 1
    return partial_estimate.replayed if is_judged else None


def compute_device_interval(
    interval: Interval,
    outside_bytes: int,
    replayed: ReplayResult | None,
    device: Device | None,
    reserved_ratio: int | None,
) -> Interval:
    """Return the device interval, cut where the job surely fits.

    It surely does where its replay runs in what ``outside_bytes`` leave, less what recorded runs
    took beyond their replays at most: ``reserved_ratio`` in parts per million, None where none
    judges.
    """
    if device is None or replayed is None or reserved_ratio is None:
        return interval
    room_bytes = (device.usable_bytes - outside_bytes) * PER_MILLION // reserved_ratio
    if interval.high <= device.usable_bytes or replayed.run_within(room_bytes) is None:
        return interval
    return Interval(min(interval.low, device.usable_bytes), device.usable_bytes)

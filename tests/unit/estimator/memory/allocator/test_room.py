"""A job beside the memory that there is for it."""

import pytest

from service.estimator.memory.allocator.pressure import DeviceFullError
from service.estimator.memory.allocator.replay import JobTensors, ReplayPeaks, replay
from service.estimator.tape import sizes
from service.estimator.tape.event_log import Events
from service.estimator.values.workload import Allocator

MIB = 2**20
NOTHING = JobTensors(loaded=(), main_gradients=(), updates=(), gradient_bytes=2, gradient_shards=1)
VALUES = sizes.evaluate_monomials(1, 1)


def _pass(mebibytes: int, *order: int) -> Events:
    """Return a pass whose storages have so many MiB for each token."""
    count = 1 + max(order)
    size = sizes.per_token(mebibytes * MIB)
    return Events(sizes=(size,), kinds=(0,) * count, order=order, gradients=frozenset(), shards=())


def test_a_job_is_replayed_again_only_where_the_room_binds() -> None:
    """It runs as it did in all that it reserved, and in less than it asks for at once not at all:
    two replays say so to the byte.
    """
    job = (Allocator.DEFAULT, NOTHING, [_pass(12, 0, 1, ~0, 2, ~1, ~2)], VALUES)
    peaks = replay(*job)

    def run(room_bytes: int) -> int:
        return replay(*job, room_bytes=room_bytes).reserved_bytes

    assert peaks == ReplayPeaks(
        reserved_bytes=24 * MIB, allocated_bytes=24 * MIB, requested_bytes=24 * MIB
    )
    assert run(24 * MIB) == peaks.run_within(24 * MIB, _refuse) == 24 * MIB
    assert peaks.run_within(24 * MIB - 1, _refuse) is None
    with pytest.raises(DeviceFullError):
        run(24 * MIB - 1)


def test_a_room_that_binds_is_replayed() -> None:
    """Two tensors of 6 MiB share a segment of 20 MiB: in 13 MiB nobody knows without a try."""
    peaks = replay(Allocator.DEFAULT, NOTHING, [_pass(6, 0, 1)], VALUES)

    assert (peaks.requested_bytes, peaks.reserved_bytes) == (12 * MIB, 20 * MIB)
    assert peaks.run_within(13 * MIB, lambda: 13 * MIB) == 13 * MIB
    assert peaks.run_within(13 * MIB, _fail) is None


def _refuse() -> int:
    raise AssertionError("replayed for nothing")


def _fail() -> int:
    raise DeviceFullError

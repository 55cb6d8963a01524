"""A host that launches and a GPU that runs."""

from service.estimator.speed.launch_queue import LaunchQueue


def test_a_stretch_takes_the_longer_of_host_and_gpu() -> None:
    """A slow host decides, and a slow GPU does."""
    slow_host, slow_gpu = LaunchQueue(), LaunchQueue()

    assert slow_host.run(3.0, 1.0) == 3.0
    assert slow_gpu.run(1.0, 3.0) == 3.0


def test_a_host_runs_ahead_of_a_busy_gpu() -> None:
    """What the GPU still has to do hides launches of the next stretch."""
    queue = LaunchQueue()

    queue.run(1.0, 4.0)

    assert queue.run(2.0, 1.0) == 5.0
    assert queue.gpu - queue.host == 2.0


def test_a_gpu_does_not_catch_up_what_it_waited() -> None:
    """Behind a stretch that waited for the host, the GPU's own work comes on top."""
    queue = LaunchQueue()

    queue.run(4.0, 1.0)

    assert queue.run(1.0, 3.0) == 7.0
    assert (queue.host_busy, queue.gpu_busy) == (5.0, 4.0)

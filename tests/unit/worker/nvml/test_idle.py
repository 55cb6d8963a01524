"""What an idle worker sees of its GPU."""

from tests.fake_nvml import FakeGpu, FakeNvml
from worker.nvml.idle import LOOK_INTERVAL_S, IdleGpu


def test_whoever_is_there_is_somebody_else() -> None:
    """Bytes in use and the number of processes, of this GPU alone."""
    machine = FakeNvml(
        FakeGpu(uuid="GPU-1", used=7, processes={1: 3, 2: None}), FakeGpu(uuid="GPU-2", used=1)
    )

    assert IdleGpu("GPU-1", machine).observe(0.0) == {"used_bytes": 7, "foreign_processes": 2}
    assert IdleGpu("GPU-2", machine).observe(0.0) == {"used_bytes": 1, "foreign_processes": 0}


def test_what_the_driver_does_not_tell_is_left_out() -> None:
    """Without a list of processes nobody is counted as none; without a driver or this GPU there is
    nothing.
    """
    silent = FakeNvml(FakeGpu(uuid="GPU-1", used=7, processes=None))

    assert IdleGpu("GPU-1", silent).observe(0.0) == {"used_bytes": 7}
    assert IdleGpu("GPU-9", silent).observe(0.0) is None
    assert IdleGpu("GPU-1", FakeNvml(has_driver=False)).observe(0.0) is None


def test_the_driver_is_asked_now_and_then() -> None:
    """Between two looks what was seen is told again."""
    gpu = FakeGpu(uuid="GPU-1", used=7)
    machine = FakeNvml(gpu)
    idle = IdleGpu("GPU-1", machine)
    first = idle.observe(1.0)
    gpu.used = 9

    assert idle.observe(LOOK_INTERVAL_S) == first
    assert machine.calls.count("nvmlInit") == 1
    assert idle.observe(1.0 + LOOK_INTERVAL_S) == {"used_bytes": 9, "foreign_processes": 0}

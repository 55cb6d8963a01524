"""Readings of a GPU over time: what is kept, what it costs, who else is there."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fake_nvml import GIB, FakeGpu, FakeNvml
from tests.waiting import eventually
from worker.nvml.gpus import list_gpus
from worker.nvml.neighbours import Neighbours, find_own_pid
from worker.nvml.readers import LoadReading, MemoryReading, make_reader
from worker.nvml.sampler import MEMORY_READINGS_PER_LOAD, Sampler, sample_in_thread
from worker.nvml.series import DEVICE_USED, MAX_WINDOWS, POWER, PROCESS_USED, UTILIZATION, Series


class Script:
    """A reader that plays what it is given and then repeats the last of it."""

    def __init__(self, *memory: MemoryReading) -> None:
        """Play these readings."""
        self._memory = list(memory)
        self.num_loads = 0

    def memory(self) -> MemoryReading:
        """Return the next reading."""
        return self._memory.pop(0) if len(self._memory) > 1 else self._memory[0]

    def load(self) -> LoadReading:
        """Return 300 W."""
        self.num_loads += 1
        return LoadReading(power_w=300.0, utilization_percent=99)


def used(num_bytes: int, **processes: int) -> MemoryReading:
    """Return a reading; processes as ``p7=bytes``."""
    return MemoryReading(
        used_bytes=num_bytes, processes={int(pid[1:]): size for pid, size in processes.items()}
    )


def test_nvml_reads_as_nvidia_smi_does() -> None:
    """The second version of the memory call leaves out what the driver keeps for itself; a process
    has its bytes.
    """
    machine = FakeNvml(FakeGpu(uuid="GPU-1", used=3 * GIB, processes={7: 2 * GIB}))
    reader = make_reader(machine, list_gpus(machine)[0])

    assert reader.memory() == MemoryReading(used_bytes=3 * GIB, processes={7: 2 * GIB})
    assert reader.load() == LoadReading(power_w=120.0, utilization_percent=7)


def test_what_the_driver_refuses_is_asked_once() -> None:
    """An old driver on a MIG instance tells the bytes in use and nothing else; a refusal costs one
    call.
    """
    gpu = FakeGpu(
        uuid="GPU-1", used=GIB, processes=None, power_mw=None, utilization=None, knows_v2=False
    )
    machine = FakeNvml(gpu)
    reader = make_reader(machine, list_gpus(machine)[0])
    machine.calls.clear()
    readings = [(reader.memory(), reader.load()) for _ in range(3)]

    assert set(readings) == {(MemoryReading(used_bytes=2 * GIB, processes=None), LoadReading())}
    assert machine.calls.count("nvmlDeviceGetComputeRunningProcesses") == 1
    assert machine.calls.count("nvmlDeviceGetPowerUsage") == 1
    assert machine.calls.count("nvmlDeviceGetMemoryInfo") == 1 + 3


def test_readings_belong_to_phases() -> None:
    """The process says where it is; each reading counts for that phase, and power is read more
    seldom than memory.
    """
    now = iter(range(100))
    reader = Script(used(10, p7=4), used(30, p7=9), used(20, p7=6))
    sampler = Sampler(reader, own_pid=7, clock=lambda: next(now) / 100)
    sampler.phase = "forward"
    sampler.take()
    sampler.take()
    sampler.phase = "backward"
    sampler.take()

    assert sampler.series.highest(DEVICE_USED) == {"forward": 30, "backward": 20}
    assert sampler.series.highest(PROCESS_USED) == {"forward": 9, "backward": 6}
    assert sampler.series.highest(POWER) == {"forward": 300_000}
    assert sampler.series.highest(UTILIZATION) == {"forward": 99}
    assert reader.num_loads == 1


def test_power_is_read_every_tenth_time() -> None:
    """What the driver averages over a second is not asked for a hundred times in one."""
    reader = Script(used(1))
    sampler = Sampler(reader)
    for _ in range(2 * MEMORY_READINGS_PER_LOAD + 1):
        sampler.take()

    assert reader.num_loads == 3


def test_the_thread_samples_and_ends() -> None:
    """The thread reads by itself, accounts for its own time, and reads once more when it is told to
    end.
    """
    sampler = Sampler(Script(used(5)))
    with sample_in_thread(sampler):
        eventually(lambda: sampler.series.num_readings >= 3)

    assert sampler.series.num_readings >= 4
    assert sampler.cpu_s > 0
    assert sampler.overhead > 0
    assert not any(thread.name == "nvml-sampler" for thread in threading.enumerate())


def test_a_lost_gpu_ends_the_recording_and_not_the_measurement() -> None:
    """The failure is kept as words; what was read before stays."""

    class Lost(Script):
        def memory(self) -> MemoryReading:
            if self.num_loads:
                message = "GPU is lost"
                raise RuntimeError(message)
            return super().memory()

    sampler = Sampler(Lost(used(5)))
    sampler.run(threading.Event())

    assert sampler.failure == "RuntimeError: GPU is lost"
    assert sampler.series.num_readings == 1


@given(
    st.lists(
        st.tuples(
            st.floats(min_value=0, max_value=3),
            st.sampled_from(["forward", "backward"]),
            st.integers(0, 2**40),
        ),
        min_size=1,
        max_size=200,
    ),
)
def test_no_peak_is_ever_lost(readings: list[tuple[float, str, int]]) -> None:
    """However the readings fall, the highest of each phase is the highest that was read in it."""
    series, t_s, expected = Series(), 0.0, dict[str, int]()
    for wait_s, phase, value in readings:
        t_s += wait_s
        series.take(t_s, phase, {DEVICE_USED: value})
        expected[phase] = max(expected.get(phase, 0), value)

    assert series.highest(DEVICE_USED) == expected
    assert series.num_readings == len(readings)


def test_a_long_recording_stays_small() -> None:
    """Minutes at a hundred readings a second are kept in a few hundred windows, its one peak among
    them.
    """
    series = Series()
    for number in range(20_000):
        series.take(number / 100, "decode", {DEVICE_USED: 99 if number == 12_345 else 5})

    assert len(series.windows) <= MAX_WINDOWS
    assert series.highest(DEVICE_USED) == {"decode": 99}
    assert series.longest_gap_s == pytest.approx(0.01)


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({}, {7: 1}, 7),
        ({3: 1}, {3: 1, 7: 2}, 7),
        ({3: 1}, {3: 1, 4242: 2}, 4242),
        ({7: 1}, {7: 1, 4242: 2}, 4242),
        ({3: 1}, {3: 1, 7: 1, 8: 1}, 7),
        ({3: 1}, {3: 1}, None),
        ({}, {4242: 1, 4243: 1}, None),
        (None, None, None),
    ],
)
def test_the_own_process_is_found_in_a_container(
    before: dict[int, int | None] | None, after: dict[int, int | None] | None, found: int | None
) -> None:
    """Under its own number, else as the only one that came with CUDA's start; two that came could
    both be it.
    """
    assert find_own_pid(before, after, 7) == found


def test_neighbours_are_noticed() -> None:
    """Who was there all the time changed nothing; who grew did, and both are named."""
    quiet, growing = Neighbours(own_pids=frozenset({7})), Neighbours(own_pids=frozenset({7}))
    for _ in range(2):
        quiet.record(used(10, p7=4, p9=6))
    growing.record(used(10, p7=4, p9=6))
    growing.record(used(11, p7=4, p9=7))

    assert quiet.describe() == "others use this GPU: process 9 with 6 bytes"
    assert not quiet.has_changed
    assert (
        growing.describe()
        == "others use this GPU: process 9 with 7 bytes, and this changed while it was measured"
    )


def test_a_neighbour_who_comes_later_changes_the_gpu() -> None:
    """The GPU that was measured on was not the same all the time; alone there is nothing to say."""
    neighbours = Neighbours(own_pids=frozenset({7}))
    neighbours.record(used(4, p7=4))
    assert neighbours.describe() is None
    neighbours.record(MemoryReading(used_bytes=9, processes={7: 4, 9: None}))

    assert neighbours.has_changed
    assert (
        neighbours.describe()
        == "others use this GPU: process 9, and this changed while it was measured"
    )


def test_nobody_is_a_neighbour_of_himself() -> None:
    """Of two that could be this process neither's growth says anything; one who goes was
    another.
    """
    neighbours = Neighbours(own_pids=frozenset({7, 8}))
    neighbours.record(used(4, p7=2, p8=2))
    neighbours.record(used(9, p7=7, p8=2))

    assert not neighbours.has_changed
    assert (neighbours.describe() or "").startswith("processes 7, 8 came to this GPU together")
    neighbours.record(used(7, p7=7))
    assert neighbours.has_changed
    assert "one of them left meanwhile" in (neighbours.describe() or "")

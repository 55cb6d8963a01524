"""A thread that reads a GPU at 100 Hz, phase by phase.

Each reading is labelled with the phase that it belongs to.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from worker.nvml.neighbours import Neighbours
from worker.nvml.readers import MemoryReader
from worker.nvml.series import DEVICE_USED, POWER, PROCESS_USED, UTILIZATION, Series

MEMORY_HZ = 100
MEMORY_READINGS_PER_LOAD = 10
"""Readings of memory for each reading of power and utilisation.

These are the driver's own averages over 25 ms to 1 s (nvml.h): ten times a second misses nothing.
"""
_MILLI = 1000


@dataclass(slots=True)
class Sampler:
    """One recording of a GPU's memory, power and utilisation.

    ``own_pid`` is this process's number in NVML's list, None where it cannot be found there.
    """

    reader: MemoryReader
    own_pid: int | None = None
    candidates: frozenset[int] = frozenset()
    """Numbers that could be this process's, where several processes came with it."""
    clock: Callable[[], float] = time.monotonic
    series: Series = field(default_factory=Series)
    neighbours: Neighbours = field(init=False)
    phase: str = "start"
    """Phase of the measured process; set by it, read by the sampler's thread."""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    failure: str | None = None
    """Why the recording ended before it was told to."""
    _began: float = field(init=False)
    _num_taken: int = 0

    def __post_init__(self) -> None:
        """Start the recording's clock."""
        self._began = self.clock()
        self.neighbours = Neighbours(
            own_pids=self.candidates if self.own_pid is None else frozenset({self.own_pid})
        )

    @property
    def overhead(self) -> float:
        """The share of one core that the sampler's thread took."""
        return self.cpu_s / self.wall_s if self.wall_s else 0.0

    def take(self) -> None:
        """Take one reading now."""
        phase, reading = self.phase, self.reader.memory()
        values = {DEVICE_USED: reading.used_bytes}
        if self.own_pid is not None and reading.processes is not None:
            own_bytes = reading.processes.get(self.own_pid)
            values |= {} if own_bytes is None else {PROCESS_USED: own_bytes}
        if self._num_taken % MEMORY_READINGS_PER_LOAD == 0:
            values |= self._load()
        self.neighbours.record(reading)
        self.series.take(self.clock() - self._began, phase, values)
        self._num_taken += 1

    def run(self, stop: threading.Event) -> None:
        """Take readings until ``stop`` is set, the last one after it."""
        began, cpu_began = time.monotonic(), time.thread_time()
        due = began
        try:
            while not stop.is_set():
                self.take()
                # A reading that took long is followed by the next in its time, not by a burst of
                # those it held up.
                due = max(due + 1 / MEMORY_HZ, time.monotonic())
                # Waiting for the event itself would cost more than the reading does.
                time.sleep(max(0.0, due - time.monotonic()))
            self.take()
        except Exception as error:  # noqa: BLE001 - the measurement goes on without its sampler, and says so
            self.failure = f"{type(error).__name__}: {error}"
        self.wall_s += time.monotonic() - began
        self.cpu_s += time.thread_time() - cpu_began

    def _load(self) -> dict[str, int]:
        load = self.reader.load()
        power = {} if load.power_w is None else {POWER: round(load.power_w * _MILLI)}
        utilization = (
            {} if load.utilization_percent is None else {UTILIZATION: load.utilization_percent}
        )
        return power | utilization


@contextmanager
def sample_in_thread(sampler: Sampler) -> Iterator[Sampler]:
    """Sample in a thread while the body runs."""
    stop = threading.Event()
    thread = threading.Thread(target=sampler.run, args=(stop,), name="nvml-sampler", daemon=True)
    thread.start()
    try:
        yield sampler
    finally:
        stop.set()
        thread.join()

"""NVML's readings of one GPU at one moment."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from worker.nvml.gpus import Gpu, find_handle
from worker.nvml.library import Api, Handle, query

_MILLI = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryReading:
    """Bytes in use on the GPU, in total and by process.

    A process whose bytes NVML does not report has None. ``processes`` is None where NVML lists none
    at all: not on this GPU, or not to this user.
    """

    used_bytes: int
    processes: Mapping[int, int | None] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadReading:
    """Power in watts and utilisation in percent of the time.

    Utilisation is the share in which a kernel ran. None where NVML does not report it (MIG
    instances).
    """

    power_w: float | None = None
    utilization_percent: int | None = None


class MemoryReader(Protocol):
    """Reads one GPU."""

    def memory(self) -> MemoryReading:
        """Return the bytes in use now."""

    def load(self) -> LoadReading:
        """Return the GPU's power and utilisation now."""


@dataclass(slots=True)
class NvmlReader:
    """Reads one GPU or MIG instance through NVML.

    A function that the driver refused once is not called again.
    """

    api: Api
    handle: Handle
    _refused: set[str] = field(default_factory=set)

    def memory(self) -> MemoryReading:
        """Return the bytes in use now.

        Raises the library's error when the GPU is gone.
        """
        return MemoryReading(used_bytes=self._used_bytes(), processes=self._processes())

    def load(self) -> LoadReading:
        """Return the GPU's power and utilisation now."""
        power_mw, rates = (
            self._query("nvmlDeviceGetPowerUsage"),
            self._query("nvmlDeviceGetUtilizationRates"),
        )
        return LoadReading(
            power_w=None if power_mw is None else power_mw / _MILLI,
            utilization_percent=None if rates is None else int(rates.gpu),
        )

    def _used_bytes(self) -> int:
        # The second version leaves out what the driver keeps for itself, as nvidia-smi does.
        info: Any = self._query("nvmlDeviceGetMemoryInfo", self.api.nvmlMemory_v2)
        if info is None:
            info = self.api.nvmlDeviceGetMemoryInfo(self.handle)
        return int(info.used)

    def _processes(self) -> dict[int, int | None] | None:
        listed = self._query("nvmlDeviceGetComputeRunningProcesses")
        if listed is None:
            return None
        return {process.pid: process.usedGpuMemory for process in listed}

    def _query(self, name: str, *args: object) -> Any | None:  # noqa: ANN401 - NVML's own structures
        if name in self._refused:
            return None
        answer = query(self.api, lambda: getattr(self.api, name)(self.handle, *args))
        if answer is None:
            self._refused.add(name)
        return answer


def make_reader(api: Api, gpu: Gpu) -> NvmlReader:
    """Make a reader of this GPU."""
    return NvmlReader(api, find_handle(api, gpu))

"""Memory in use on the GPU of an idle worker.

All of it belongs to other processes, with which the next measurement will share the GPU.
"""

from dataclasses import dataclass

from worker.nvml.gpus import list_gpus
from worker.nvml.library import Api, NvmlUnavailableError, open_nvml
from worker.nvml.readers import make_reader

LOOK_INTERVAL_S = 30.0
"""Time between two readings; without persistence mode each loads the driver, which takes a second.
"""


@dataclass(slots=True)
class IdleGpu:
    """One GPU that is read at intervals through NVML.

    ``api`` is the library, the driver's by default. The last reading stays until the next.
    """

    uuid: str
    api: Api = None
    _due_s: float = 0.0
    _last_usage: dict[str, int] | None = None

    def observe(self, now_s: float) -> dict[str, int] | None:
        """Return bytes in use and the number of other processes.

        None where the driver does not report them.
        """
        if now_s >= self._due_s:
            self._due_s = now_s + LOOK_INTERVAL_S
            self._last_usage = self._read()
        return self._last_usage

    def _read(self) -> dict[str, int] | None:
        try:
            with open_nvml(self.api) as api:
                gpu = next((gpu for gpu in list_gpus(api) if gpu.uuid == self.uuid), None)
                if gpu is None:
                    return None
                reading = make_reader(api, gpu).memory()
        except NvmlUnavailableError:
            return None
        usage = {"used_bytes": reading.used_bytes}
        return (
            usage
            if reading.processes is None
            else {**usage, "foreign_processes": len(reading.processes)}
        )

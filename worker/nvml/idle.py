"""What an idle worker's GPU holds: whatever is there is somebody else's, and the next measurement will not be alone."""

from dataclasses import dataclass

from worker.nvml.gpus import list_gpus
from worker.nvml.library import Api, NvmlUnavailableError, opened
from worker.nvml.readers import reader_of

LOOK_INTERVAL_S = 30.0
"""Without persistence mode the driver is loaded for each look, which takes it a second."""


@dataclass(slots=True)
class IdleGpu:
    """Looks at one GPU now and then, through ``api`` or the driver's library; what it saw last stays until the next look."""

    uuid: str
    api: Api = None
    _due_s: float = 0.0
    _seen: dict[str, int] | None = None

    def look(self, now_s: float) -> dict[str, int] | None:
        """Return bytes in use and the number of processes; None where the driver does not tell."""
        if now_s >= self._due_s:
            self._due_s = now_s + LOOK_INTERVAL_S
            self._seen = self._read()
        return self._seen

    def _read(self) -> dict[str, int] | None:
        try:
            with opened(self.api) as api:
                gpu = next((gpu for gpu in list_gpus(api) if gpu.uuid == self.uuid), None)
                if gpu is None:
                    return None
                reading = reader_of(api, gpu).memory()
        except NvmlUnavailableError:
            return None
        told = {"used_bytes": reading.used_bytes}
        return told if reading.processes is None else {**told, "foreign_processes": len(reading.processes)}

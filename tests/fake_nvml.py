"""A fake pynvml that plays a machine.

It has the functions that the worker calls, under pynvml's names. Handles are the fake GPUs.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

GIB = 1024**3
_V2 = 0x02000028


class FakeNvmlError(Exception):
    """The library's error, as in pynvml."""

    def __init__(self, message: str, value: int = 999) -> None:
        """Say what is wrong, in words and by NVML's number."""
        super().__init__(message)
        self.value = value


class FakeMismatchError(Exception):
    """The binding's error where the driver is older than a function."""


@dataclass(kw_only=True)
class FakeGpu:
    """One GPU or MIG instance; what is None is not supported."""

    uuid: str
    name: str = "NVIDIA H200"
    total: int = 141 * GIB
    used: int = 0
    processes: dict[int, int | None] | None = field(default_factory=dict)
    power_mw: int | None = 120_000
    utilization: int | None = 7
    instances: list["FakeGpu"] = field(default_factory=list)
    knows_v2: bool = True


def memory_info(gpu: FakeGpu, version: int | None = None) -> SimpleNamespace | None:
    """Return the memory in either version of the call.

    The first counts what the driver keeps for itself as used.
    """
    if version == _V2 and not gpu.knows_v2:
        return None
    driver_bytes = 0 if version == _V2 else GIB
    return SimpleNamespace(
        total=gpu.total, used=gpu.used + driver_bytes, free=gpu.total - gpu.used - driver_bytes
    )


def running_processes(gpu: FakeGpu) -> list[SimpleNamespace] | None:
    """Return the list of processes."""
    if gpu.processes is None:
        return None
    return [SimpleNamespace(pid=pid, usedGpuMemory=size) for pid, size in gpu.processes.items()]


class FakeNvml:
    """The fake module, which records every call by name."""

    NVMLError = FakeNvmlError
    NVMLLibraryMismatchError = FakeMismatchError
    nvmlMemory_v2 = _V2  # noqa: N815 - pynvml's name

    def __init__(self, *gpus: FakeGpu, has_driver: bool = True, starts_driver: bool = True) -> None:
        """Play these GPUs."""
        self.gpus = list(gpus)
        self._has_driver = has_driver
        self.calls: list[str] = []
        all_gpus = [item for gpu in gpus for item in (gpu, *gpu.instances)]
        self._plays: dict[str, Callable[..., Any]] = {
            "nvmlInit": lambda: (has_driver and starts_driver) or None,
            "nvmlShutdown": lambda: True,
            "nvmlSystemGetDriverVersion": lambda: "580.159.04",
            "nvmlSystemGetCudaDriverVersion": lambda: 13000,
            "nvmlDeviceGetCount": lambda: len(gpus),
            "nvmlDeviceGetHandleByIndex": lambda index: gpus[index],
            "nvmlDeviceGetHandleByUUID": lambda uuid: next(
                (gpu for gpu in all_gpus if gpu.uuid == uuid), None
            ),
            "nvmlDeviceGetMigMode": lambda gpu: [1, 1] if gpu.instances else [0, 0],
            "nvmlDeviceGetMaxMigDeviceCount": lambda _gpu: 7,
            "nvmlDeviceGetMigDeviceHandleByIndex": lambda gpu, place: (*gpu.instances, *[None] * 7)[
                place
            ],
            "nvmlDeviceGetGpuInstanceId": lambda item: (
                1 + next(g.instances.index(item) for g in gpus if item in g.instances)
            ),
            "nvmlDeviceGetComputeInstanceId": lambda _instance: 0,
            "nvmlDeviceGetUUID": lambda gpu: gpu.uuid,
            "nvmlDeviceGetName": lambda gpu: gpu.name,
            "nvmlDeviceGetCudaComputeCapability": lambda _gpu: (9, 0),
            "nvmlDeviceGetMemoryInfo": memory_info,
            "nvmlDeviceGetComputeRunningProcesses": running_processes,
            "nvmlDeviceGetPowerUsage": lambda gpu: gpu.power_mw,
            "nvmlDeviceGetUtilizationRates": lambda gpu: (
                gpu.utilization and SimpleNamespace(gpu=gpu.utilization, memory=0)
            ),
        }

    def __getattr__(self, name: str) -> Callable[..., Any]:
        """Return the function of this name.

        None as its answer means "not supported".
        """
        if name not in self._plays:
            raise AttributeError(name)

        def function(*args: object) -> object:
            self.calls.append(name)
            answer = self._plays[name](*args)
            if answer is None:
                message = "Not Supported"
                raise FakeNvmlError(message) if self._has_driver else FakeNvmlError(message, 12)
            return answer

        return function

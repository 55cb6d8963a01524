"""What a worker says of its machine, without importing what it is about."""

import os
import platform
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from service.catalog.gpus import entries_named
from service.jobs.contract import ProbeDevice
from service.usecases.jobs.workers import WorkerInfo
from worker.nvml.gpus import Gpu, cuda_version, driver_version, list_gpus
from worker.nvml.library import Api, NvmlUnavailableError, opened
from worker.nvml.visible import UnknownGpuError, visible_gpus

PACKAGES = ("gpu-headroom", "torch", "transformers", "peft", "nvidia-ml-py", "rq")
_CPUINFO = Path("/proc/cpuinfo")


class NoGpuError(RuntimeError):
    """There is no GPU to work on; the message says why."""


def describe(device: ProbeDevice, *, nvml: Api = None, environ: Mapping[str, str] | None = None) -> WorkerInfo:
    """Return this process as a worker of ``device``; its name is fresh, so that no dead worker stands in its way.

    Raises NoGpuError for device cuda where NVML shows no GPU.
    """
    host = socket.gethostname()
    own = describe_cpu(device)
    if device is ProbeDevice.CUDA:
        own = describe_gpu(nvml, os.environ if environ is None else environ)
    return WorkerInfo(
        name=f"{host}-{os.getpid()}-{secrets.token_hex(3)}",
        host=host,
        pid=os.getpid(),
        devices=[own],
        versions=installed_versions(),
    )


def describe_cpu(device: ProbeDevice) -> dict[str, Any]:
    """Return the CPU and the host memory that probes run on."""
    return {
        "device": device.value,
        "name": cpu_name(_CPUINFO.read_text() if _CPUINFO.exists() else ""),
        "num_cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def describe_gpu(nvml: Api, environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the one GPU that CUDA shows this process; ``sku`` is the catalogue's name for it, None where it has none."""
    with _asked(nvml) as api:
        gpu = _only_gpu(visible_gpus(list_gpus(api), environ))
        found = entries_named(_whole_name(gpu))
        return {
            "device": ProbeDevice.CUDA.value,
            "name": gpu.name,
            "sku": found[0].name if len(found) == 1 and gpu.parent_uuid is None else None,
            "uuid": gpu.uuid,
            "memory_bytes": gpu.memory_bytes,
            "compute_capability": gpu.compute_capability,
            "driver": driver_version(api),
            "cuda": cuda_version(api),
            "mig_parent_uuid": gpu.parent_uuid,
        }


def has_gpu(nvml: Api = None, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether NVML shows a GPU that CUDA may use here."""
    try:
        with opened(nvml) as api:
            return bool(visible_gpus(list_gpus(api), os.environ if environ is None else environ))
    except (NvmlUnavailableError, UnknownGpuError):
        return False


@contextmanager
def _asked(nvml: Api) -> Iterator[Api]:
    try:
        with opened(nvml) as api:
            yield api
    except (NvmlUnavailableError, UnknownGpuError) as error:
        message = f"device cuda needs an NVIDIA GPU: {error}"
        raise NoGpuError(message) from error


def _only_gpu(gpus: Sequence[Gpu]) -> Gpu:
    if len(gpus) == 1:
        return gpus[0]
    seen = ", ".join(gpu.uuid for gpu in gpus) or "none"
    message = (
        f"a worker of device cuda measures on one GPU, and CUDA shows it: {seen}; start one worker per GPU with "
        "headroom worker --gpus all, or name one in CUDA_VISIBLE_DEVICES"
    )
    raise NoGpuError(message)


def _whole_name(gpu: Gpu) -> str:
    """Return the name without the profile that a MIG instance has behind it."""
    return gpu.name.partition(" MIG ")[0]


def cpu_name(cpuinfo: str) -> str:
    """Return the name of the first CPU in the text of /proc/cpuinfo, else what the platform calls it."""
    for line in cpuinfo.splitlines():
        key, separator, value = line.partition(":")
        if separator and key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def installed_versions() -> dict[str, str]:
    """Return the versions that decide what a measurement finds; what is not installed is absent."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found

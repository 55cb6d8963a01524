"""Description of a worker's machine, without importing torch."""

import os
import platform
import secrets
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from service.catalog.gpus import find_driver_name
from service.jobs.contract import JOBS, JOBS_VERSION, ProbeDevice
from service.usecases.jobs.workers import WorkerInfo
from worker.nvml.gpus import Gpu, list_gpus, read_cuda_version, read_driver_version
from worker.nvml.library import Api, NvmlUnavailableError, open_nvml
from worker.nvml.visible import UnknownGpuError, list_visible_gpus

PACKAGES = ("gpu-headroom", "torch", "transformers", "peft", "nvidia-ml-py", "rq")
_CPUINFO = Path("/proc/cpuinfo")


class NoGpuError(RuntimeError):
    """No GPU is available; the message says why."""


def describe_worker(
    device: ProbeDevice, *, nvml: Api = None, environ: Mapping[str, str] | None = None
) -> WorkerInfo:
    """Describe this process as a worker of ``device``.

    Its name is fresh, so that it never collides with that of a dead worker. Raises NoGpuError for
    device cuda where NVML shows no GPU.
    """
    host = socket.gethostname()
    device_info = describe_cpu(device)
    if device is ProbeDevice.CUDA:
        device_info = describe_gpu(nvml, os.environ if environ is None else environ)
    return WorkerInfo(
        name=f"{host}-{os.getpid()}-{secrets.token_hex(3)}",
        host=host,
        pid=os.getpid(),
        devices=[device_info],
        versions=list_versions(),
    )


def describe_cpu(device: ProbeDevice) -> dict[str, Any]:
    """Describe the CPU and the host memory that probes run on."""
    return {
        "device": device.value,
        "name": parse_cpu_name(_CPUINFO.read_text() if _CPUINFO.exists() else ""),
        "num_cores": len(os.sched_getaffinity(0))
        if hasattr(os, "sched_getaffinity")
        else os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
    }


def describe_gpu(nvml: Api, environ: Mapping[str, str]) -> dict[str, Any]:
    """Describe the one GPU that CUDA shows this process.

    ``sku`` is the catalogue's name for it or for the slice, None where it has none.
    """
    with _require_nvml(nvml) as api:
        gpu = _require_one_gpu(list_visible_gpus(list_gpus(api), environ))
        return {
            "device": ProbeDevice.CUDA.value,
            "name": gpu.name,
            "sku": find_driver_name(gpu.name, gpu.memory_bytes),
            "uuid": gpu.uuid,
            "memory_bytes": gpu.memory_bytes,
            "compute_capability": gpu.compute_capability,
            "driver": read_driver_version(api),
            "cuda": read_cuda_version(api),
            "mig_parent_uuid": gpu.parent_uuid,
        }


def has_gpu(nvml: Api = None, environ: Mapping[str, str] | None = None) -> bool:
    """Return whether NVML shows a GPU that CUDA may use here."""
    try:
        with open_nvml(nvml) as api:
            return bool(
                list_visible_gpus(list_gpus(api), os.environ if environ is None else environ)
            )
    except (NvmlUnavailableError, UnknownGpuError):
        return False


@contextmanager
def _require_nvml(nvml: Api) -> Iterator[Api]:
    try:
        with open_nvml(nvml) as api:
            yield api
    except (NvmlUnavailableError, UnknownGpuError) as error:
        message = f"device cuda needs an NVIDIA GPU: {error}"
        raise NoGpuError(message) from error


def _require_one_gpu(gpus: Sequence[Gpu]) -> Gpu:
    if len(gpus) == 1:
        return gpus[0]
    visible = ", ".join(gpu.uuid for gpu in gpus) or "none"
    message = (
        f"a worker of device cuda measures on one GPU, and CUDA shows it: {visible}; start one "
        "worker per GPU with headroom worker --gpus all, or name one in CUDA_VISIBLE_DEVICES"
    )
    raise NoGpuError(message)


def parse_cpu_name(cpuinfo: str) -> str:
    """Return the name of the first CPU in the text of /proc/cpuinfo.

    Falls back to the platform's name for the processor.
    """
    for line in cpuinfo.splitlines():
        key, separator, value = line.partition(":")
        if separator and key.strip() == "model name":
            return value.strip()
    return platform.processor() or platform.machine()


def list_versions() -> dict[str, str]:
    """Return the versions of the packages that a measurement depends on.

    A package that is not installed is absent. The jobs' says what becomes of one that the worker
    cannot read.
    """
    versions = {"python": platform.python_version(), JOBS: JOBS_VERSION}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions

"""What a worker says of its machine, without importing what it is about."""

import os
import platform
import secrets
import socket
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from service.jobs.contract import ProbeDevice
from service.usecases.workers import WorkerInfo

PACKAGES = ("gpu-headroom", "torch", "transformers", "peft", "rq")
_CPUINFO = Path("/proc/cpuinfo")


def describe(device: ProbeDevice) -> WorkerInfo:
    """Return this process as a worker of ``device``; its name is fresh, so that no dead worker stands in its way."""
    host = socket.gethostname()
    return WorkerInfo(
        name=f"{host}-{os.getpid()}-{secrets.token_hex(3)}",
        host=host,
        pid=os.getpid(),
        devices=[describe_cpu(device)],
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

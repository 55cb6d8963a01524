"""This machine's memory, available and in use, and its processor."""

import platform
from pathlib import Path

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")


def read_available_bytes() -> int:
    """Return the bytes that this process may still allocate.

    It is the kernel's estimate, or less where a control group limits it.
    """
    free = _read_kib_fields(_PROC / "meminfo")["MemAvailable"]
    limit, used = _read_cgroup_bytes("memory.max"), _read_cgroup_bytes("memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used))


def read_resident_bytes() -> int:
    """Return the resident set of this process."""
    return _read_kib_fields(_PROC / "self/status")["VmRSS"]


def read_peak_resident_bytes() -> int:
    """Return the highest resident set that this process ever had."""
    return _read_kib_fields(_PROC / "self/status")["VmHWM"]


def read_processor_name() -> str:
    """Return the processor's name from the kernel."""
    for line in (_PROC / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _read_kib_fields(path: Path) -> dict[str, int]:
    """Read the fields of a kernel file in kB, as bytes."""
    fields = (line.split() for line in path.read_text().splitlines())
    return {
        columns[0].rstrip(":"): int(columns[1]) * 1024
        for columns in fields
        if columns[-1:] == ["kB"]
    }


def _read_cgroup_bytes(name: str) -> int | None:
    try:
        text = (_CGROUP / name).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None

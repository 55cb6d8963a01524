"""What this machine has: memory that may be used, memory that is used, and the processor's name."""

import platform
from pathlib import Path

_PROC = Path("/proc")
_CGROUP = Path("/sys/fs/cgroup")


def available_bytes() -> int:
    """Return the bytes that this process may still take: the kernel's estimate, or less where a control group says so."""
    free = _kib_fields(_PROC / "meminfo")["MemAvailable"]
    limit, used = _cgroup_bytes("memory.max"), _cgroup_bytes("memory.current")
    return free if limit is None or used is None else max(0, min(free, limit - used))


def resident_bytes() -> int:
    """Return the resident set of this process."""
    return _kib_fields(_PROC / "self/status")["VmRSS"]


def peak_resident_bytes() -> int:
    """Return the highest resident set that this process ever had."""
    return _kib_fields(_PROC / "self/status")["VmHWM"]


def processor() -> str:
    """Return the processor's name as the kernel tells it."""
    for line in (_PROC / "cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() == "model name":
            return value.strip()
    return platform.machine()


def _kib_fields(path: Path) -> dict[str, int]:
    """Return the fields of a kernel file that are given in kB, in bytes."""
    fields = (line.split() for line in path.read_text().splitlines())
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields if words[-1:] == ["kB"]}


def _cgroup_bytes(name: str) -> int | None:
    try:
        text = (_CGROUP / name).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None

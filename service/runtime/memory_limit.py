"""Memory that the processes of one container may take together."""

import ctypes
from functools import cache
from pathlib import Path

_UNLIMITED = 2**60
"""Control groups of version 1 say "no limit" by a number near 2**63."""


def read_memory_limit(root: Path = Path("/")) -> int | None:
    """Return the bytes that this process's control group may take.

    The least of the group and those above it, ``None`` where none has a limit (cgroup-v2.rst,
    ``memory.max``; cgroup-v1/memory.rst, ``memory.limit_in_bytes``).
    """
    limits = []
    for line in _read(root / "proc/self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            mount, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            mount, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        group = mount / path.lstrip("/")
        # Within a namespace of its own the path may lie outside of what is mounted.
        folders = [mount, *(f for f in (group, *group.parents) if mount in f.parents)]
        limits += [int(text) for f in folders if (text := _read(f / name).strip()).isdecimal()]
    limits = [limit for limit in limits if limit < _UNLIMITED]
    return min(limits, default=None)


@cache
def share_memory(most_bytes: int, part: int) -> int:
    """Return the lesser of a size and a container's part.

    The limit is read once: who asks does so with each call.
    """
    limit = read_memory_limit()
    return most_bytes if limit is None else min(most_bytes, limit // part)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""


def return_free_memory() -> None:
    """Give pages that nothing uses back to the kernel.

    glibc keeps them otherwise (malloc_trim(3)); other C libraries have no such function.
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (AttributeError, OSError):
        return
    trim.argtypes = (ctypes.c_size_t,)
    trim(0)

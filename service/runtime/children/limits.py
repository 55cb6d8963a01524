"""Limits of what one call may take of a child."""

import math
import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_STATM = Path("/proc/self/statm")
_ROLLUP = Path("/proc/self/smaps_rollup")
_KIB = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Memory and processor's time of one call.

    ``memory_bytes`` are beyond what the child has when the call begins, ``reply_bytes`` are those
    of its answer on the way. The kernel counts whole seconds of a processor, rounded up.
    """

    memory_bytes: int
    processor_s: float
    reply_bytes: int = 64 * 2**20


@contextmanager
def apply_limits(limits: Limits) -> Iterator[None]:
    """Limit this process for the length of a block.

    Beyond its memory an allocation raises MemoryError; beyond its time the kernel ends it.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    seconds = math.ceil(usage.ru_utime + usage.ru_stime + limits.processor_s)
    address_space = _count_address_space()
    # What the kernel ends leaves no file with a stranger's text in it.
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, seconds)
    if address_space is not None:
        _limit(resource.RLIMIT_AS, address_space + limits.memory_bytes)
    try:
        yield
    finally:
        for kind in (resource.RLIMIT_CPU, resource.RLIMIT_AS):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (hard, hard))


def _limit(kind: int, value: int) -> None:
    hard = resource.getrlimit(kind)[1]
    resource.setrlimit(kind, (value if hard == resource.RLIM_INFINITY else min(value, hard), hard))


def count_private_bytes() -> int:
    """Return the memory that this process shares with no other.

    That of a fork's parent counts for its parent. All that it has where the kernel does not say
    (proc(5), ``smaps_rollup``).
    """
    try:
        lines = _ROLLUP.read_text().splitlines()
    except OSError:
        return count_resident_bytes()
    return sum(_KIB * int(line.split()[1]) for line in lines if line.startswith("Private_"))


def count_resident_bytes() -> int:
    """Return the memory that this process has, 0 where it is unknown."""
    return _count_pages(1) or 0


def _count_address_space() -> int | None:
    """Return the address space in use, ``None`` where it is unknown."""
    return _count_pages(0)


def _count_pages(column: int) -> int | None:
    """Return the bytes of a column of ``/proc/self/statm`` (proc(5))."""
    try:
        return int(_STATM.read_text().split()[column]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None

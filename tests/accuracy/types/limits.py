"""Limits of a process that measures one type."""

import resource
from pathlib import Path

MEMORY_BYTES = 4 * 2**30
"""Beyond the libraries, as a worker has it."""


def limit_process(seconds: int) -> None:
    """Let this process take so many seconds of a processor, and a worker's memory."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    limit = pages * resource.getpagesize() + MEMORY_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

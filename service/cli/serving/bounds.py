"""Bounds of connections, and of how many there are."""

import resource
from dataclasses import dataclass

KEEP_ALIVE_S = 5
"""Between two requests of a connection; uvicorn's own value."""
OTHER_FILES = 256
"""Of a process beside its connections: the database's, Redis', files that are read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Bounds of a process's connections; times are in seconds."""

    connections: int = 1000
    head_bytes: int = 65_536
    """Of a request's line and headers, as uvicorn has it for its other parser."""
    headers: int = 100
    """As Apache's ``LimitRequestFields`` and Python's own client have it."""
    pipelined: int = 100
    """Requests that wait behind one that is being answered."""
    head_s: float = 10.0
    """From a connection, or a request's first byte, to the end of its headers."""
    body_s: float = 20.0
    """For a body, and one more for every ``body_bytes_per_s`` that have come; as Apache's
    ``RequestReadTimeout``, which asks for 500 bytes.
    """
    body_bytes_per_s: int = 16_384
    linger_s: float = 30.0
    """For the rest of a body that was answered before its end, as nginx's ``lingering_time``: a
    client that still writes when its connection is closed does not read the answer.
    """
    linger_bytes: int = 64 * 2**20
    stall_s: float = 60.0
    """For a client to read ``stall_bytes`` of its answer, as nginx's ``send_timeout``."""
    stall_bytes: int = 16_384
    check_s: float = 2.0
    """How often a connection is looked at, so that a bound may be exceeded by as much."""


def fit_connections(wanted: int) -> int:
    """Return how many connections this process can hold open.

    Its limit of open files is raised as far as it may be.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = wanted + OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        soft = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, soft - OTHER_FILES))

"""A probe that computes on processors gives way to those who answer on the same machine."""

import os
from contextlib import suppress
from pathlib import Path

from service.jobs.contract import ProbeDevice

NICE = 10
"""About a tenth of the processor time of a process with which it shares one (sched(7): a step of nice is a factor of 1.25)."""
_AUTOGROUP = Path("/proc/self/autogroup")


def give_way(device: ProbeDevice) -> None:
    """Let others go first, unless a GPU is measured: whatever keeps its kernels from being launched would be in its times.

    Linux shares processors among sessions before it shares them among a session's processes (sched(7), "The autogroup
    feature"), and a probe has a session of its own, so the session has to give way as well.
    """
    if device is ProbeDevice.CUDA:
        return
    os.nice(NICE)
    # A kernel without autogroups shares among processes alone, and a container may hold its /proc read-only.
    with suppress(OSError):
        _AUTOGROUP.write_text(str(NICE))

"""CPU priority of a probe that shares its machine with other programs."""

import os
from contextlib import suppress
from pathlib import Path

from service.jobs.contract import ProbeDevice

NICE = 10
"""About a tenth of the processor time of a process with which it shares one.

A step of nice is a factor of 1.25 (sched(7)).
"""
_AUTOGROUP = Path("/proc/self/autogroup")


def lower_priority(device: ProbeDevice) -> None:
    """Lower this process's CPU priority, unless a GPU is measured.

    On a GPU, whatever keeps its kernels from being launched would be in its times. Linux shares
    processors among sessions before it shares them among a session's processes (sched(7), "The
    autogroup feature"), and a worker's probe has a session of its own, so the session's priority is
    lowered as well. Who runs one by hand keeps the priority of his shell.
    """
    if device is ProbeDevice.CUDA:
        return
    os.nice(NICE)
    if os.getsid(0) != os.getpid():
        return
    # A kernel without autogroups shares among processes alone, and a container may hold its /proc
    # read-only.
    with suppress(OSError):
        _AUTOGROUP.write_text(str(NICE))

"""Processes as tests look at them."""

import psutil


def has_ended(pid: int) -> bool:
    """Return whether a process is gone or a zombie.

    A zombie's parent has only not looked yet.
    """
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True

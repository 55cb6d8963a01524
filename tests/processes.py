"""Processes as tests look at them."""

import psutil


def has_ended(pid: int) -> bool:
    """Tell whether a process is gone; one whose parent has only not looked yet is."""
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True

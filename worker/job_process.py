"""A forked process for one job, which isolates the worker from it."""

import os
import select
import signal
from collections.abc import Callable
from typing import NoReturn

from service.runtime.line_process import die_with_parent
from service.runtime.logs import get_logger

_log = get_logger(__name__)


class JobProcess:
    """A forked process that runs one function and ends.

    It dies with the process that forked it.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        """Fork; in the child run ``work`` and never return."""
        parent = os.getpid()
        # Only the child keeps the writing end, and exec closes it: its end of file is the child's
        # death.
        self._death_fd, alive_fd = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.close(self._death_fd)
            _run(work, parent)
        os.close(alive_fd)
        self._is_reaped = False

    def wait(self, *, tick: Callable[[], None], tick_s: float) -> int:
        """Wait for the process to end and return its status.

        Calls ``tick`` every ``tick_s`` seconds. The status is negative for a signal.
        """
        while not select.select([self._death_fd], [], [], tick_s)[0]:
            tick()
        self._is_reaped = True
        os.close(self._death_fd)
        _pid, status = os.waitpid(self.pid, 0)
        return os.waitstatus_to_exitcode(status)

    def kill(self) -> None:
        """End it at once; its probe dies with it."""
        # Once it is reaped, its number may be another process's.
        if not self._is_reaped:
            os.kill(self.pid, signal.SIGKILL)


def _run(work: Callable[[], None], parent: int) -> NoReturn:
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        # Ctrl-C goes to every process of a terminal; the worker decides what it means for a job.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        die_with_parent(parent)
        work()
        status = 0
    except Exception:  # noqa: BLE001 - the process ends here, so this is the last chance to say why
        _log.exception("horse.failed")
    finally:
        # Never back into the worker's loop, whatever was raised.
        os._exit(status)

"""A process's deadline, which a busy host moves."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

_NANOSECONDS = 10**9
_PROC = Path("/proc")


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineExceeded:
    """The process was killed at its deadline.

    ``waited_s`` are the seconds before it in which the process waited for a processor that other
    programs had.
    """

    deadline_s: float
    waited_s: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Allowance:
    """Seconds that a process may take.

    ``deadline_s`` are those in which it runs or waits for anything but a processor; ``limit_s``
    are those of the clock, None where they are the same.
    """

    deadline_s: float
    limit_s: float | None = None


@dataclass(slots=True, kw_only=True)
class DeadlineWatch:
    """A watch over a process that began just now.

    ``read_waited_s`` reads the seconds that it waited for a processor.
    """

    allowance: Allowance
    read_waited_s: Callable[[], float]
    clock: Callable[[], float] = time.monotonic
    _began: float = field(init=False)

    def __post_init__(self) -> None:
        """Start the clock."""
        self._began = self.clock()

    def check(self) -> DeadlineExceeded | None:
        """Return the deadline once it has passed."""
        elapsed_s, deadline_s = self.clock() - self._began, self.allowance.deadline_s
        if elapsed_s <= deadline_s:
            return None
        limit_s = self.allowance.limit_s
        waited_s = 0.0 if limit_s is None else self.read_waited_s()
        is_over = elapsed_s - waited_s > deadline_s or (limit_s is not None and elapsed_s > limit_s)
        return DeadlineExceeded(deadline_s=deadline_s, waited_s=waited_s) if is_over else None


def read_waited_s(pid: int, proc: Path = _PROC) -> float:
    """Return the seconds that a process waited for a processor.

    Of its threads, that of the one that waited most: what waits side by side waits once. It is the
    second number of ``schedstat``, in nanoseconds (Linux, ``Documentation/scheduler/sched-stats``);
    0 of a process that has ended, and where the kernel keeps none.
    """
    waited = 0
    for path in (proc / str(pid) / "task").glob("*/schedstat"):
        # A thread may end between the two, and a kernel may refuse.
        with suppress(OSError, ValueError, IndexError):
            waited = max(waited, int(path.read_text().split()[1]))
    return waited / _NANOSECONDS

"""Functions that children call in tests."""

import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from service.base.errors import InvalidRequestError
from service.runtime.children import child

T = TypeVar("T")
MIB = 2**20


def get_pid() -> int:
    """Return the process."""
    return os.getpid()


def get_environ() -> dict[str, str]:
    """Return the environment."""
    return dict(os.environ)


def refuse(detail: str) -> None:
    """Refuse as a use case does."""
    raise InvalidRequestError(detail, errors=[{"field": "content", "message": detail}])


def allocate(num_bytes: int) -> int:
    """Take memory for a moment."""
    return len(bytearray(num_bytes))


def repeat(num_bytes: int) -> bytes:
    """Return many bytes."""
    return bytes(num_bytes)


def spin() -> None:
    """Use the processor without end."""
    while True:
        pass


def wait(path: str) -> None:
    """Say who waits, and wait without end."""
    Path(path).write_text(str(os.getpid()))
    threading.Event().wait()


def die() -> None:
    """End as a crash does."""
    os.kill(os.getpid(), signal.SIGSEGV)


def get_policy() -> tuple[int, int]:
    """Return niceness and scheduling policy."""
    return os.nice(0), os.sched_getscheduler(0)


def call(function: Callable[[], int]) -> int:
    """Call a function."""
    return function()


def make_function() -> Callable[[], int]:
    """Return what no other process can find."""
    return lambda: 7


def check_on() -> None:
    """Go on until nobody waits."""
    while True:
        child.check_cancelled()


def give_back(value: T) -> T:
    """Return what came."""
    return value


def keep_nothing() -> int:
    """Have this process end after the call, and return it."""
    child.KEPT_BYTES = 0
    return os.getpid()

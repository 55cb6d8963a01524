"""Reading of what strangers hand in, in processes with limits."""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from service.api.computing.budgets import Budget, TooCostlyError
from service.base.errors import UnavailableError
from service.estimator.values.units import format_bytes
from service.runtime.children.limits import Limits
from service.runtime.children.pool import (
    ChildError,
    ChildPool,
    MemoryExceededError,
    ReplyExceededError,
    TimeExceededError,
)
from service.runtime.children.starting import ChildStartError

T = TypeVar("T")
FILE_MODULES = ("service.api.resources.handed_in.bodies", "service.api.resources.handed_in.jobs")
"""What a process that reads has loaded before it is asked."""
SMALL_BYTES = 1 << 16
"""Up to which a file is read in the server's process. The costliest bytes that any reader takes
are those of the shortest lines of ``sacct``, 107 bytes of memory each, and a pickle's empty lists,
79: 7 MiB.
"""
MEMORY_RATIO = 40
"""Bytes of memory that reading one byte may take. Of what tools write a pickled snapshot and
``sacct`` take most, 17; a matrix of Prometheus takes 12, ``nvidia-smi`` 11, JSON of a snapshot 5.
"""
REPLY_BYTES = 16 * 2**20
"""Of what was read, on its way back: 10,000 nodes have 3 MB, 100,000 readings 12."""
LEAST_MEMORY_BYTES = 64 * 2**20
MOST_MEMORY_BYTES = 2**30


class FileReader:
    """Reader of files, without a pool in the process that asks."""

    def __init__(
        self, pool: ChildPool | None = None, *, most_memory_bytes: int = MOST_MEMORY_BYTES
    ) -> None:
        """Read in children of ``pool``, none of which takes more than ``most_memory_bytes``."""
        self._pool, self._most_memory_bytes = pool, most_memory_bytes

    def read(self, function: Callable[[bytes], T], body: bytes, budget: Budget) -> T:
        """Return what a function reads of a body.

        Raises what it refuses, and TooCostlyError for what takes more memory or time than a body of
        its size may.
        """
        return self.call(partial(function, body), len(body), budget)

    def call(self, function: Callable[[], T], num_bytes: int, budget: Budget) -> T:
        """Return what a function reads of so many bytes.

        It brings them along. Raises what ``read`` raises.
        """
        if self._pool is None or num_bytes <= SMALL_BYTES:
            return function()
        left_s = budget.count_left()
        if left_s <= 0.0:
            raise _make_late_error(num_bytes, budget)
        memory_bytes = min(LEAST_MEMORY_BYTES + MEMORY_RATIO * num_bytes, self._most_memory_bytes)
        limits = Limits(memory_bytes=memory_bytes, processor_s=left_s, reply_bytes=REPLY_BYTES)
        try:
            return self._pool.call(function, limits=limits, count=budget.add)
        except ReplyExceededError as error:
            message = (
                f"what these {format_bytes(num_bytes)} say takes more than "
                f"{format_bytes(REPLY_BYTES)}, which is what may be read of one file; send it in "
                "parts"
            )
            raise TooCostlyError(message, budget_bytes=REPLY_BYTES) from error
        except MemoryExceededError as error:
            message = (
                f"reading these {format_bytes(num_bytes)} takes more than "
                f"{format_bytes(memory_bytes)} of memory, which is what a file of this size may; "
                "send a part of it, or what the tool itself wrote"
            )
            raise TooCostlyError(message, budget_bytes=memory_bytes) from error
        except TimeExceededError as error:
            raise _make_late_error(num_bytes, budget) from error
        except (ChildError, ChildStartError) as error:
            message = f"the file was not read, {error}; send it again, or a part of it"
            raise UnavailableError(message) from error


def _make_late_error(num_bytes: int, budget: Budget) -> TooCostlyError:
    return TooCostlyError(
        f"reading these {format_bytes(num_bytes)} takes more than {budget.seconds:g} s of a "
        "processor, which is what one question may; send a part of it",
        budget_s=budget.seconds,
    )

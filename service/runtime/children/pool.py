"""Calls of functions in children with limits."""

import os
import signal
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from service.runtime.children.limits import Limits
from service.runtime.children.messages import (
    Call,
    OutOfMemory,
    Raised,
    Reply,
    Returned,
    decode_message,
    encode_message,
    receive_bytes,
    send_bytes,
)
from service.runtime.children.starting import Child, ChildStarter

T = TypeVar("T")
TICK_S = 0.05
"""How often somebody who waits looks whether the answer is still wanted."""
_SLOWEST = 20
"""Parts of one processor that a child has at least; a machine so loaded is given up on."""
_STARTS_WITHIN_S = 120.0


class ChildError(Exception):
    """A call that ended without an answer."""


class MemoryExceededError(ChildError):
    """A call took more memory than it may."""


class TimeExceededError(ChildError):
    """A call took more time than it may."""


class ChildDiedError(ChildError):
    """A child ended by itself, or was ended from outside."""


class ChildPool:
    """Children that call functions, each for one caller at a time.

    With ``keeps`` a child goes on to the next call with all that it remembers, else each call has
    a child of its own, which takes what it read with it.
    """

    def __init__(self, starter: ChildStarter, *, keeps: bool) -> None:
        """Start nothing yet."""
        self._starter, self._keeps = starter, keeps
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    def call(
        self,
        function: Callable[..., T],
        *arguments: object,
        limits: Limits,
        check: Callable[[], None] = lambda: None,
        count: Callable[[float], None] = lambda _processor_s: None,
    ) -> T:
        """Return what a module's function returns in a child.

        What it raises is raised. ``check`` raises where nobody waits any more, which ends the
        child; ``count`` gets what the call took of the processor. Raises ChildError where the
        limits are passed or the child ends.
        """
        encoded = encode_message(Call(function=function, arguments=arguments, limits=limits))
        child = self._take()
        reply = None
        try:
            reply = self._exchange(child, encoded, limits, check)
        finally:
            if self._keeps and isinstance(reply, Returned | Raised):
                self._put_back(child)
                status = 0
            else:
                status = self._starter.end(child)
        if reply is None:
            death = _explain_end(status, limits)
            count(limits.processor_s if isinstance(death, TimeExceededError) else 0.0)
            raise death
        count(reply.processor_s)
        match reply:
            case Returned(value=value):
                return value  # type: ignore[return-value]  # what the function returned
            case Raised(error=error):
                raise error
            case OutOfMemory():
                message = f"took more than {limits.memory_bytes:,} bytes of memory"
                raise MemoryExceededError(message)

    def close(self) -> None:
        """End the children that wait."""
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            self._starter.end(child)

    def _take(self) -> Child:
        with self._lock:
            if self._idle:
                return self._idle.pop()
        return self._starter.start()

    def _put_back(self, child: Child) -> None:
        with self._lock:
            self._idle.append(child)

    def _exchange(
        self, child: Child, encoded: bytes, limits: Limits, check: Callable[[], None]
    ) -> Reply | None:
        end = time.monotonic() + _STARTS_WITHIN_S + _SLOWEST * limits.processor_s

        def on_wait() -> None:
            check()
            if time.monotonic() > end:
                message = f"did not end within {limits.processor_s:g} s of a processor"
                raise TimeExceededError(message)

        child.connection.settimeout(None)
        try:
            send_bytes(child.connection, encoded)
        except ConnectionError:
            return None
        child.connection.settimeout(TICK_S)
        answer = receive_bytes(child.connection, on_wait)
        return None if answer is None else decode_message(answer)


def _explain_end(status: int, limits: Limits) -> ChildError:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if number == signal.SIGXCPU:
        return TimeExceededError(f"took more than {limits.processor_s:g} s of a processor")
    end = "ended" if number is None else f"was ended by {signal.Signals(number).name}"
    return ChildDiedError(f"its process {end} without an answer")

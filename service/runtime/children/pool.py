"""Calls of functions in children with limits."""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeVar

from service.runtime.children.limits import Limits
from service.runtime.children.memory import ChildMemory
from service.runtime.children.messages import (
    Asked,
    Call,
    Cancel,
    OutOfMemory,
    Raised,
    Reply,
    Returned,
    Unsendable,
    encode_message,
    is_silent,
    send_bytes,
    try_decoding,
)
from service.runtime.children.starting import TICK_S, Child, ChildStarter

T = TypeVar("T")
_SLOWEST = 20
"""Parts of one processor that a child has at least; a machine so loaded is given up on."""
_STARTS_WITHIN_S = 120.0
_LEAVES_WITHIN_S = 1.0
"""Time that a cancelled call may take to its next check."""


class ChildError(Exception):
    """A call that ended without an answer."""


class MemoryExceededError(ChildError):
    """A call took more memory than it may."""


class ReplyExceededError(MemoryExceededError):
    """A call returned more than it may."""


class TimeExceededError(ChildError):
    """A call took more time than it may."""


class ChildDiedError(ChildError):
    """A child ended by itself, or was ended from outside."""


class TravelError(ChildError):
    """A call or its result cannot travel between processes."""


class ChildPool:
    """Children that call functions, each for one caller at a time.

    With ``keeps`` a child goes on to the next call with all that it remembers, else each call has
    a child of its own, which takes what it read with it.
    """

    def __init__(
        self,
        starter: ChildStarter,
        *,
        keeps: bool,
        memory: ChildMemory | None = None,
        spared_bytes: int = 0,
    ) -> None:
        """Start nothing yet.

        Calls take ``memory`` that pools share, and leave ``spared_bytes`` of it to those of others.
        """
        self._starter, self._keeps = starter, keeps
        self._memory, self._spared_bytes = memory or ChildMemory(), spared_bytes
        self._lock = threading.Lock()
        self._idle: list[Child] = []

    @property
    def is_closed(self) -> bool:
        """Whether its children have ended because the server does."""
        return self._starter.is_closed

    def call(
        self,
        function: Callable[..., T],
        *arguments: object,
        limits: Limits,
        check: Callable[[], None] = lambda: None,
        count: Callable[[float], None] = lambda _processor_s: None,
        answers: Mapping[str, Callable[..., object]] = MappingProxyType({}),
    ) -> T:
        """Return what a module's function returns in a child.

        What it raises is raised. ``check`` raises where nobody waits any more, which ends the
        call, also while it waits for memory; ``count`` gets what the call took of the processor, at
        most so much where its child was ended. ``answers`` are those to what it asks its server.
        Raises ChildStartError, and ChildError where the limits are passed, the child ends, or
        something cannot travel.
        """
        encoded = _encode(Call(function=function, arguments=arguments, limits=limits))
        asking = _Asking(encoded=encoded, limits=limits, check=check, count=count, answers=answers)
        with self._memory.take(limits.memory_bytes, check, spared_bytes=self._spared_bytes):
            reply = self._ask_kept(asking) or self._ask(self._starter.start(check), asking)
        match reply:
            case Returned(value=value):
                return value  # type: ignore[return-value]  # what the function returned
            case Raised(error=error):
                raise error
            case Unsendable(reason=reason):
                raise TravelError(reason)
            case OutOfMemory(is_reply=True):
                message = f"returned more than {limits.reply_bytes:,} bytes"
                raise ReplyExceededError(message)
            case OutOfMemory():
                message = f"took more than {limits.memory_bytes:,} bytes of memory"
                raise MemoryExceededError(message)
            case int():
                raise _explain_end(reply, limits)

    def close(self) -> None:
        """End all children, and the process that starts them."""
        self._starter.close()
        with self._lock:
            idle, self._idle = self._idle, []
        for child in idle:
            self._starter.end(child)

    def _cancel(self, child: Child) -> Reply | None:
        """Have a child that is kept leave its call.

        Return its reply, ``None`` where it does not leave soon: it is ended then.
        """
        if not self._keeps:
            return None
        end = time.monotonic() + _LEAVES_WITHIN_S

        def on_wait() -> None:
            if time.monotonic() > end:
                raise TimeoutError

        try:
            send_bytes(child.connection, encode_message(Cancel()))
            encoded = child.inbox.receive(on_wait)
        except OSError:
            return None
        reply = None if encoded is None else try_decoding(encoded)
        return reply if isinstance(reply, Returned | Raised) else None

    def _ask_kept(self, asking: "_Asking") -> Reply | int | None:
        """Return the reply of an idle child.

        It is the wait status of one that this call ended, and ``None`` where none is idle. Those
        that remembered too much, or were asked nothing for long, may just have left.
        """
        while True:
            with self._lock:
                if not self._idle:
                    return None
                child = self._idle.pop()
            if not is_silent(child.connection):
                self._starter.end(child)
            elif (reply := self._ask(child, asking)) != 0:
                return reply

    def _ask(self, child: Child, asking: "_Asking") -> Reply | int:
        """Return a child's reply, or the wait status that it ended with."""
        began = time.monotonic()
        reply, status = None, 0
        try:
            reply = _exchange(child, asking)
        except BaseException:
            reply = self._cancel(child)
            raise
        finally:
            if self._keeps and isinstance(reply, Returned | Raised | Unsendable):
                self._put_back(child)
            else:
                status = self._starter.end(child)
            # What an ended child took nobody says; one thread took no more than has passed.
            most_s = min(time.monotonic() - began, asking.limits.processor_s)
            asking.count(most_s if reply is None else reply.processor_s)
        return status if reply is None else reply

    def _put_back(self, child: Child) -> None:
        with self._lock:
            if not self.is_closed:
                self._idle.append(child)
                return
        self._starter.end(child)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asking:
    """A call on its way, and what its caller says to it."""

    encoded: bytes
    limits: Limits
    check: Callable[[], None]
    count: Callable[[float], None]
    answers: Mapping[str, Callable[..., object]]


def _exchange(child: Child, asking: _Asking) -> Reply | None:
    processor_s = asking.limits.processor_s
    end = time.monotonic() + _STARTS_WITHIN_S + _SLOWEST * processor_s

    def on_wait() -> None:
        asking.check()
        if time.monotonic() > end:
            message = f"did not end within {processor_s:g} s of a processor"
            raise TimeExceededError(message)

    connection = child.connection
    with suppress(ConnectionError, TimeoutError):
        _send(connection, asking.encoded)
        while (received := child.inbox.receive(on_wait)) is not None:
            message = try_decoding(received)
            if not isinstance(message, Asked):
                reply: Reply = message
                return reply
            _send(connection, _answer(message, asking.answers))
    return None


def _encode(message: Call | Returned) -> bytes:
    try:
        return encode_message(message)
    except MemoryError:
        # Of this process: what is sent has nothing wrong with it.
        raise
    except Exception as error:
        raise TravelError(str(error)) from error


def _send(connection: socket.socket, encoded: bytes) -> None:
    """Send to a child, which reads at once, however much it is."""
    connection.settimeout(_STARTS_WITHIN_S)
    try:
        send_bytes(connection, encoded)
    finally:
        connection.settimeout(TICK_S)


def _answer(question: Asked, answers: Mapping[str, Callable[..., object]]) -> bytes:
    value = answers[question.name](*question.arguments)
    return _encode(Returned(value=value, processor_s=0.0))


def _explain_end(status: int, limits: Limits) -> ChildError:
    number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else None
    if number == signal.SIGXCPU:
        return TimeExceededError(f"took more than {limits.processor_s:g} s of a processor")
    end = "ended" if number is None else f"was ended by {signal.Signals(number).name}"
    return ChildDiedError(f"its process {end} without an answer")

"""Start and end of children.

A fork server makes them, which is started when it is needed.
"""

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from service.runtime.child_environ import select_environ
from service.runtime.children.fork_server import END, REQUEST, RESULT, START
from service.runtime.children.messages import Inbox

FORK_SERVER = "service.runtime.children.fork_server"
"""Module that starts the children."""
TICK_S = 0.05
"""How often somebody who waits looks whether the answer is still wanted."""
IDLE_S = 300.0
"""After which a fork server without children ends: a server at rest has no memory for it."""
_READY_WITHIN_S = 60.0
"""Time that a loaded machine may take to start an interpreter and load the modules."""


class ChildStartError(Exception):
    """No process could be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A running child, the connection to it, and what comes over that."""

    pid: int
    connection: socket.socket
    inbox: Inbox


class ChildStarter:
    """Starts children that have ``modules`` loaded.

    Nothing runs before the first child is asked for.
    """

    def __init__(self, modules: Sequence[str], *, idle_s: float | None = IDLE_S) -> None:
        """Start nothing yet.

        ``idle_s`` is after how long without children the fork server ends; None if it stays.
        """
        self._modules, self._idle_s = tuple(modules), idle_s
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._children: dict[int, Child] = {}
        self._is_closed = False

    @property
    def is_closed(self) -> bool:
        """Whether nothing is started any more."""
        return self._is_closed

    def start(self, check: Callable[[], None] = lambda: None) -> Child:
        """Start a child.

        ``check`` is called while the first one waits for its modules; what it raises is raised.
        Raises ChildStartError.
        """
        # The fork server may just have ended, having had nothing to do: then another one is asked.
        child = self._start(check) or self._start(check)
        if child is None:
            message = "the process that starts others has ended"
            raise ChildStartError(message)
        return child

    def end(self, child: Child) -> int:
        """Kill a child unless it has ended, and return its wait status."""
        child.connection.close()
        with self._lock:
            if self._control is None or self._children.get(child.pid) is not child:
                # It has ended with its fork server.
                return 0
            del self._children[child.pid]
            try:
                return _request_end(self._control, child.pid)
            except OSError:
                self._shut()
                return 0

    def close(self) -> None:
        """End the fork server, and with it all children, for good."""
        with self._lock:
            self._is_closed = True
            self._shut()

    def _start(self, check: Callable[[], None]) -> Child | None:
        try:
            control, connection = self._request_start()
        except OSError as error:
            message = f"no process could be started: {error}"
            raise ChildStartError(message) from error
        try:
            pid = _receive_pid(connection, check)
        except BaseException as error:
            connection.close()
            if isinstance(error, ChildStartError):
                self._leave(control)
            raise
        if pid is None:
            connection.close()
            self._leave(control)
            return None
        if pid < 0:
            connection.close()
            message = "the system starts no more processes"
            raise ChildStartError(message)
        child = Child(pid=pid, connection=connection, inbox=Inbox(connection))
        with self._lock:
            if self._control is control:
                self._children[pid] = child
        return child

    def _request_start(self) -> tuple[socket.socket, socket.socket]:
        """Ask for a child.

        Return the control socket and this end of its connection. Nobody waits for it in the lock:
        whoever ends the server must have that at once.
        """
        connection, other_end = socket.socketpair()
        try:
            with other_end, self._lock:
                control = self._open()
                try:
                    socket.send_fds(control, [REQUEST.pack(START, 0)], [other_end.fileno()])
                except ConnectionError:
                    self._shut()
                    control = self._open()
                    socket.send_fds(control, [REQUEST.pack(START, 0)], [other_end.fileno()])
        except BaseException:
            connection.close()
            raise
        return control, connection

    def _leave(self, control: socket.socket) -> None:
        """End a fork server that answers no more, unless replaced."""
        with self._lock:
            if self._control is control:
                self._shut()

    def _open(self) -> socket.socket:
        if self._is_closed:
            message = "the server stops"
            raise ChildStartError(message)
        if self._control is not None:
            return self._control
        connection, other_end = socket.socketpair()
        with other_end:
            connection.settimeout(_READY_WITHIN_S)
            try:
                self._process = subprocess.Popen(  # noqa: S603 - our own module
                    [
                        sys.executable,
                        "-m",
                        FORK_SERVER,
                        str(other_end.fileno()),
                        str(self._idle_s or 0.0),
                        *self._modules,
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    env=select_environ(os.environ),
                    pass_fds=(other_end.fileno(),),
                )
            except BaseException:
                connection.close()
                raise
        self._control = connection
        return connection

    def _shut(self) -> None:
        for child in self._children.values():
            # Whoever reads from it sees its end, and closes it: a number must not be given anew.
            with suppress(OSError):
                child.connection.shutdown(socket.SHUT_RDWR)
        self._children.clear()
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            # It may be loading modules, and has nothing to bring to an end. Its children die with
            # it.
            self._process.kill()
            self._process.wait()
            self._process = None


def _receive_pid(connection: socket.socket, check: Callable[[], None]) -> int | None:
    """Return the process at the other end.

    ``None`` is for one whose fork server has ended; it is negative where the system gave none.
    """
    end = time.monotonic() + _READY_WITHIN_S
    connection.settimeout(TICK_S)
    while True:
        try:
            received = connection.recv(RESULT.size, socket.MSG_WAITALL)
        except TimeoutError:
            pass
        except ConnectionError:
            return None
        else:
            return _unpack(received)
        check()
        if time.monotonic() > end:
            message = f"no process was ready within {_READY_WITHIN_S:g} s"
            raise ChildStartError(message)


def _request_end(control: socket.socket, pid: int) -> int:
    control.sendall(REQUEST.pack(END, pid))
    status = _unpack(control.recv(RESULT.size, socket.MSG_WAITALL))
    if status is None:
        message = "the process that starts others has ended"
        raise ConnectionError(message)
    return status


def _unpack(received: bytes) -> int | None:
    return int(RESULT.unpack(received)[0]) if len(received) == RESULT.size else None

"""Start and end of children.

A fork server makes them, which is started when it is needed.
"""

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from service.runtime.child_environ import select_environ
from service.runtime.children.fork_server import END, REQUEST, RESULT, START

_READY_WITHIN_S = 60.0
"""Time that a loaded machine may take to start an interpreter and load the modules."""
_ENDS_WITHIN_S = 2.0


class ChildStartError(Exception):
    """No process could be started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A running child and the connection to it."""

    pid: int
    connection: socket.socket


class ChildStarter:
    """Starts children that have ``modules`` loaded.

    Nothing runs before the first child is asked for.
    """

    def __init__(self, modules: Sequence[str]) -> None:
        """Start nothing yet."""
        self._modules = tuple(modules)
        self._lock = threading.Lock()
        self._control: socket.socket | None = None
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> Child:
        """Start a child; raises ChildStartError."""
        with self._lock:
            try:
                return self._start(self._open())
            except OSError:
                # It may just have ended, having had nothing to do.
                self._shut()
            try:
                return self._start(self._open())
            except OSError as error:
                self._shut()
                message = f"no process could be started: {error}"
                raise ChildStartError(message) from error

    def end(self, child: Child) -> int:
        """Kill a child unless it has ended, and return its wait status."""
        child.connection.close()
        with self._lock:
            if self._control is None:
                return 0
            try:
                return self._request(self._control, END, child.pid)
            except OSError:
                # Its children have ended with it.
                self._shut()
                return 0

    def close(self) -> None:
        """End the fork server, and with it all children."""
        with self._lock:
            self._shut()

    def _open(self) -> socket.socket:
        if self._control is not None:
            return self._control
        connection, other_end = socket.socketpair()
        with other_end:
            connection.settimeout(_READY_WITHIN_S)
            self._process = subprocess.Popen(  # noqa: S603 - our own module
                [
                    sys.executable,
                    "-m",
                    "service.runtime.children.fork_server",
                    str(other_end.fileno()),
                    *self._modules,
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=select_environ(os.environ),
                pass_fds=(other_end.fileno(),),
            )
        self._control = connection
        return connection

    def _start(self, control: socket.socket) -> Child:
        connection, other_end = socket.socketpair()
        try:
            with other_end:
                pid = self._request(control, START, 0, other_end.fileno())
        except BaseException:
            connection.close()
            raise
        return Child(pid=pid, connection=connection)

    def _request(self, control: socket.socket, kind: int, pid: int, *files: int) -> int:
        socket.send_fds(control, [REQUEST.pack(kind, pid)], files)
        result = control.recv(RESULT.size, socket.MSG_WAITALL)
        if len(result) != RESULT.size:
            message = "the process that starts others has ended"
            raise ConnectionError(message)
        number: int = RESULT.unpack(result)[0]
        return number

    def _shut(self) -> None:
        if self._control is not None:
            self._control.close()
            self._control = None
        if self._process is not None:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_ENDS_WITHIN_S)
            if self._process.poll() is None:
                self._process.kill()
                self._process.wait()
            self._process = None

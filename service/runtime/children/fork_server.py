"""A process that starts children by fork, with all modules loaded.

The server that answers has threads and must not fork; this one has a single thread and nothing but
modules in its memory, which its children share. It ends when its server has gone, or when nobody
has asked it for long, and its children end with it.
"""

import gc
import os
import signal
import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from service.runtime.children.child import give_way, serve
from service.runtime.line_process import die_with_parent

REQUEST = struct.Struct(">Bi")
START, END = 1, 2
RESULT = struct.Struct(">i")
NO_PROCESS = -1
"""Number of a child that the system did not start."""


class ForkServer:
    """Starts and ends children as its server asks."""

    def __init__(self, control: socket.socket, *, idle_s: float | None) -> None:
        """Serve the other end of ``control``.

        ``idle_s`` is after how long without children it ends; None if it stays.
        """
        self._control, self._idle_s = control, idle_s
        self._running: set[int] = set()
        self._statuses: dict[int, int] = {}

    def serve(self) -> None:
        """Answer requests until there is no reason to go on."""
        self._control.settimeout(self._idle_s)
        while True:
            try:
                request, files, _, _ = socket.recv_fds(self._control, REQUEST.size, 1)
            except TimeoutError:
                self._reap()
                if not self._running:
                    return
                continue
            except ConnectionError:
                return
            if len(request) != REQUEST.size:
                return
            kind, pid = REQUEST.unpack(request)
            if kind == START:
                self._start(files[0])
            else:
                self._control.sendall(RESULT.pack(self._end(pid)))

    def _start(self, file: int) -> None:
        """Start a child, and tell the other end its number."""
        self._reap()
        parent = os.getpid()
        try:
            pid = os.fork()
        except OSError:
            # The other children go on, and the next one may be had.
            pid = NO_PROCESS
        if pid == 0:
            self._become_child(file, parent)
        if pid != NO_PROCESS:
            self._running.add(pid)
        with suppress(OSError), socket.socket(fileno=file) as connection:
            connection.sendall(RESULT.pack(pid))

    def _become_child(self, file: int, parent: int) -> None:
        status = 1
        try:
            die_with_parent(parent)
            self._control.close()
            give_way()
            serve(socket.socket(fileno=file))
            status = 0
        finally:
            os._exit(status)

    def _end(self, pid: int) -> int:
        """Kill a child unless it has ended, and return its wait status."""
        if pid in self._running:
            # Nobody else waits for it: until then its number is no other process's.
            os.kill(pid, signal.SIGKILL)
            self._statuses[pid] = os.waitpid(pid, 0)[1]
            self._running.discard(pid)
        return self._statuses.pop(pid, 0)

    def _reap(self) -> None:
        for pid in list(self._running):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                self._statuses[pid] = status
                self._running.discard(pid)


def main(arguments: Sequence[str] | None = None) -> int:
    """Load the modules that are named, and serve the control socket."""
    file, idle, *modules = sys.argv[1:] if arguments is None else arguments
    # Whoever stops a terminal's programs stops the server, which ends this one by its socket.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=int(file)) as control:
        ForkServer(control, idle_s=float(idle) or None).serve()
    return 0


if __name__ == "__main__":
    sys.exit(main())

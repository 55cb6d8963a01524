"""Fork server of tests: programs of ours start in it with their modules loaded.

``python -m tests.running.fork_server CONTROL LISTENER MODULE…`` serves two sockets of a test run.
A fresh interpreter would import for one to three processor seconds what a fork shares.
"""

import fcntl
import json
import multiprocessing
import os
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from multiprocessing.context import ForkProcess
from types import FrameType

from service.embedded.forking import close_files, forget_handlers, preload
from tests.running.database_template import copying_first
from tests.running.folders import make_folder

MESSAGE_BYTES = 1 << 18
MAX_FILES = 32
_ABOVE_ALL_TARGETS = 512
_FORK = multiprocessing.get_context("fork")


class ForkServer:
    """Starts programs, and says how they ended."""

    def __init__(self, control: socket.socket, listener: socket.socket) -> None:
        """Serve whoever holds the other end of ``control``, and who connects meanwhile."""
        self._control, self._listener = control, listener
        self._started: dict[int, ForkProcess] = {}
        self._owned: dict[socket.socket, ForkProcess] = {}
        self._awaited: dict[int, tuple[ForkProcess, socket.socket]] = {}
        self._selector = selectors.DefaultSelector()
        for asked in (control, listener):
            self._selector.register(asked, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer until ``control`` is closed."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    connection = self._listener.accept()[0]
                    self._selector.register(connection, selectors.EVENT_READ)
                    continue
                if isinstance(key.fileobj, int):
                    self._tell_end(key.fileobj)
                    continue
                assert isinstance(key.fileobj, socket.socket)
                if self._answer(key.fileobj):
                    continue
                if key.fileobj is self._control:
                    self._end_all()
                    return
                self._selector.unregister(key.fileobj)
                key.fileobj.close()
                # What a shell's program stands for ends with it.
                if key.fileobj in self._owned:
                    self._owned.pop(key.fileobj).kill()

    def _end_all(self) -> None:
        for process in self._started.values():
            process.kill()

    def _answer(self, connection: socket.socket) -> bool:
        """Answer one request; return whether there was one."""
        try:
            message, files, _, _ = socket.recv_fds(connection, MESSAGE_BYTES, MAX_FILES)
        except ConnectionError:
            return False
        if not message:
            return False
        request = json.loads(message)
        if request.get("is_loaded"):
            # Whoever is read has loaded its modules.
            _send(0, connection)
            return True
        pid = request.get("pid")
        if pid is None:
            _send(self._start(request, files, connection), connection)
            return True
        process = self._started[pid]
        if request.get("is_awaited") and process.exitcode is None:
            end = os.pidfd_open(pid)
            self._awaited[end] = process, connection
            self._selector.register(end, selectors.EVENT_READ)
        else:
            _send(process.exitcode, connection)
        return True

    def _tell_end(self, end: int) -> None:
        """Send the code of a process that has ended to whoever waits for it."""
        process, connection = self._awaited.pop(end)
        self._selector.unregister(end)
        os.close(end)
        _send(process.exitcode, connection)

    def _start(
        self, request: Mapping[str, object], files: Sequence[int], connection: socket.socket
    ) -> int:
        process = _FORK.Process(target=run, args=(request, files))
        process.start()
        for file in files:
            os.close(file)
        assert process.pid is not None
        self._started[process.pid] = process
        if connection is not self._control:
            self._owned[connection] = process
        return process.pid


def _send(reply: int | None, connection: socket.socket) -> None:
    # Whoever asked may have gone.
    with suppress(OSError):
        connection.send(json.dumps(reply).encode())


def run(request: Mapping[str, object], files: Sequence[int]) -> None:
    """Be the program that is asked for."""
    module, arguments, environment = (request[key] for key in ("module", "arguments", "environ"))
    targets = request["files"]
    assert isinstance(arguments, list)
    assert isinstance(targets, list)
    assert isinstance(environment, dict)
    if request["leads"]:
        os.setsid()
    forget_handlers()
    # First out of the way: the place of one may be another's number.
    moved = [fcntl.fcntl(file, fcntl.F_DUPFD, _ABOVE_ALL_TARGETS) for file in files]
    for file, target in zip(moved, targets, strict=True):
        os.dup2(file, target)
    close_files({0, 1, 2, *targets})
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - it stays open
    os.chdir(str(request["directory"]))
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    program = import_module(str(module))
    sys.argv = [str(program.__file__), *arguments]
    sys.exit(program.main())


def _skip_signal(_number: int, _frame: FrameType | None) -> None:
    """Do nothing."""


def serve_forks(numbers: Sequence[str]) -> None:
    """Serve the two sockets of these numbers to the end of ``control``."""
    # Whoever stops the tests closes the socket; what is ignored would stay so in forks.
    signal.signal(signal.SIGINT, _skip_signal)
    control, listener = (socket.socket(fileno=int(number)) for number in numbers)
    ForkServer(control, listener).serve()


def main() -> None:
    """Load the modules, and serve."""
    numbers, modules = sys.argv[1:3], sys.argv[3:]
    preload(modules)
    with make_folder() as folder, copying_first(folder):
        serve_forks(numbers)


if __name__ == "__main__":
    main()

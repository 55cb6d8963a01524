"""Programs of ours that start as forks, with everything loaded that they import."""

import atexit
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from tests.running.fork_server import MESSAGE_BYTES
from tests.running.starting import ForkServerConnection, start_fork_server

_LOADED = {
    "headroom": (
        *(f"service.cli.commands.{name}" for name in ("migrate", "reconcile", "serve", "up")),
        *(f"service.cli.commands.{name}" for name in ("clusters", "fit", "measure", "plan")),
        *("worker.__main__", "tests.fake_probe"),
    ),
    "probe": ("tests.running.probe", "worker.probes.measure", "worker.probes.architecture.record"),
}
"""Modules of the fork server of each program."""
_LOCK = threading.Lock()


class ForkedProgram(subprocess.Popen[Any]):
    """``python -m MODULE ARGUMENTS``, started by a fork server, in all else a ``Popen``.

    It is no child of this process, and has no group of its own unless it leads a session.
    """

    def __init__(self, module: str, *arguments: str, **options: Any) -> None:  # noqa: ANN401 - Popen's own
        """Start it."""
        name = f"{module}.__main__" if module in {"service", "worker"} else module
        self._program = {"module": name, "arguments": arguments}
        super().__init__([sys.executable, "-m", module, *arguments], **options)

    def _execute_child(self, *values: object) -> None:
        """Have it forked; the values are those that Popen gives to its own method."""
        assert values[17:20] == (None, None, None), "a fork has the user of its server"
        (_, _, _, _, pass_fds, cwd, env, _, _, _, *pipes) = values[:16]
        to_child, _, _, from_child, _, errors = (int(str(pipe)) for pipe in pipes)
        leads = bool(values[-2])
        ends = [
            end if end != -1 else number
            for number, end in ((0, to_child), (1, from_child), (2, errors))
        ]
        passed = [int(str(file)) for file in pass_fds]  # type: ignore[attr-defined]  # a sequence of numbers
        request = {
            **self._program,
            "files": [0, 1, 2, *passed],
            "environ": dict(os.environ if env is None else env),  # type: ignore[call-overload]  # a mapping
            "directory": str(cwd or Path.cwd()),
            "leads": leads,
        }
        self.pid = _ask(request, *ends, *passed)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # of Popen, as all that begins so here

    def _internal_poll(self, *_values: object, **_more: object) -> int | None:
        if self.returncode is None:
            self.returncode = _ask({"pid": self.pid})
        return self.returncode

    def _wait(self, timeout: float | None) -> int:
        if self._internal_poll() is None and not await_end(self.pid, timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        code = self._internal_poll()
        assert code is not None
        return code


def await_end(pid: int, timeout_s: float | None) -> bool:
    """Return whether a process has ended within a time."""
    try:
        end = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        poll = select.poll()
        poll.register(end, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else 1000 * timeout_s))
    finally:
        os.close(end)


def run_forked(module: str, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":  # noqa: ANN401 - Popen's own
    """Run a program to its end, and return what it wrote."""
    program = ForkedProgram(
        module, *arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options
    )
    with program:
        out, err = program.communicate(timeout=300)
    return subprocess.CompletedProcess(program.args, program.returncode, out, err)


def put_on_path() -> Path:
    """Return a folder with a ``headroom`` that is a fork, for shells and scripts."""
    return _start_server("headroom").command.parent


def make_probe_command() -> str:
    """Return the command of real probes that are forks of one that has torch loaded."""
    return str(_start_server("probe").command)


def make_recorder_command() -> str:
    """Return the command of a recorder of one variant that is a fork of the same.

    The process that it is a fork of has loaded torch by then: whoever counts weights waits for no
    more than the fork.
    """
    server = _start_server("probe")
    server.control.send(json.dumps({"is_loaded": True}).encode())
    server.control.recv(MESSAGE_BYTES)
    probe = server.command
    return str(shutil.copy(probe, probe.with_name("recorder")))


def _ask(request: Mapping[str, object], *files: int) -> Any:  # noqa: ANN401 - what the server says
    with _LOCK:
        control = _start_server("headroom").control
        socket.send_fds(control, [json.dumps(request).encode()], files)
        return json.loads(control.recv(MESSAGE_BYTES))


@cache
def _start_server(program: str) -> ForkServerConnection:
    server = start_fork_server("tests.running.fork_server", _LOADED[program], program)
    atexit.register(server.end)
    return server

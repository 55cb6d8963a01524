"""Child processes: started, awaited and ended, never without an owner.

Three nets: a child dies with its parent (prctl), a stopping owner ends it with its whole group, and
the next owner of the data directory ends what its record still finds alive.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from service.base.startup_errors import EmbeddedServerError
from service.embedded.events import Log
from service.embedded.forking import ForkedProcess, ModuleMain, Surroundings
from service.embedded.identity import ProcessIdentity, identify, is_alive, read_record, write_record

_LAUNCHER = Path(__file__).with_name("launch.py")
_POLL_S = 0.01
_TAIL_BYTES = 2_000
_TAIL_LINES = 8


def _do_nothing() -> None:
    """Do nothing before the start."""


def _know_nothing(_log_text: str) -> None:
    """Know no advice about what a child said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """Process to keep: its program, its readiness and its end.

    ``program`` is a command to execute, or what a fork of this process runs. ``stop_signals`` are
    the signals that ask it to end, each with seconds of patience.
    """

    name: str
    program: tuple[str, ...] | ModuleMain
    record: Path
    log_file: Path
    is_ready: Callable[[int], bool]
    ready_within_s: float = 30.0
    stop_signals: tuple[tuple[signal.Signals, float], ...] = ((signal.SIGTERM, 10.0),)
    death_signal: signal.Signals = signal.SIGKILL
    user: int | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    pass_fds: tuple[int, ...] = ()
    before_start: Callable[[], None] = _do_nothing
    advise: Callable[[str], str | None] = _know_nothing
    """What to do about the end of its log, where somebody knows."""
    may_fail: bool = False
    """Whether its owner can go on without it."""


Process = subprocess.Popen[bytes] | ForkedProcess


def start(child: Child, log: Log) -> Process:
    """Start the child, ending what an earlier owner left.

    The calling thread must outlive it.
    """
    end_stale(child, log)
    child.before_start()
    with child.log_file.open("ab") as output:
        process = _start_process(child, output)
    identity = identify(process.pid)
    if identity is not None:
        write_record(child.record, identity)
    log.debug("child.started", name=child.name, pid=process.pid)
    return process


def _start_process(child: Child, output: BinaryIO) -> Process:
    if isinstance(child.program, ModuleMain):
        surroundings = Surroundings(
            name=child.name,
            parent=os.getpid(),
            death_signal=child.death_signal,
            user=child.user,
            output=output.fileno(),
            environment=child.environment,
            pass_fds=child.pass_fds,
        )
        return ForkedProcess(child.program, surroundings)
    tie = ["--parent", str(os.getpid()), "--death-signal", str(int(child.death_signal))]
    drop = ["--user", str(child.user)] if child.user is not None else []
    return subprocess.Popen(  # noqa: S603 - our own programs, no shell
        [sys.executable, "-I", "-S", str(_LAUNCHER), *tie, *drop, "--", *child.program],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        env=dict(child.environment),
        start_new_session=True,
        pass_fds=child.pass_fds,
        # A server that runs as another user may not be able to enter our working directory.
        cwd=None if child.user is None else "/",
    )


def wait_ready(child: Child, process: Process, check: Callable[[], None] = _do_nothing) -> None:
    """Wait until the child is ready.

    Raises with the end of its log when it ends or takes too long. ``check`` may raise as well.
    """
    deadline = time.monotonic() + child.ready_within_s
    while not child.is_ready(process.pid):
        check()
        code = process.poll()
        if code is not None:
            tail = read_log_tail(child)
            advice = child.advise(tail)
            message = (
                f"{'' if advice is None else advice + '; '}{child.name} ended with "
                f"{describe_exit(code)} before it was ready{tail}"
            )
            raise EmbeddedServerError(message)
        if time.monotonic() > deadline:
            message = (
                f"{child.name} is not ready after {child.ready_within_s:g} s{read_log_tail(child)}"
            )
            raise EmbeddedServerError(message)
        time.sleep(_POLL_S)


def stop(child: Child, process: Process, log: Log) -> None:
    """Stop the child and all of its process group.

    Each signal is sent after the one before has had its time.
    """
    identity = identify(process.pid)
    if identity is not None:
        _end(identity, child)
    # The leader is not reaped yet, so its group's number cannot be another's.
    _kill_group(process.pid)
    code = process.wait()
    child.record.unlink(missing_ok=True)
    log.debug("child.stopped", name=child.name, pid=process.pid, exit=describe_exit(code))


def end_stale(child: Child, log: Log) -> None:
    """End a process that a dead owner left behind."""
    identity = read_record(child.record)
    if identity is not None and is_alive(identity):
        log.warning("child.stale", name=child.name, pid=identity.pid)
        _end(identity, child)
        _kill_group(identity.pid)


def run_to_end(child: Child, log: Log, check: Callable[[], None] = _do_nothing) -> None:
    """Run a child that ends by itself.

    Raises with the end of its log when it ends badly or takes too long.
    """
    process = start(child, log)
    deadline = time.monotonic() + child.ready_within_s
    try:
        while process.poll() is None:
            check()
            if time.monotonic() > deadline:
                message = (
                    f"{child.name} has not ended after {child.ready_within_s:g} "
                    f"s{read_log_tail(child)}"
                )
                raise EmbeddedServerError(message)
            time.sleep(_POLL_S)
    finally:
        stop(child, process, log)
    code = process.wait()
    if code != 0:
        message = f"{child.name} ended with {describe_exit(code)}{read_log_tail(child)}"
        raise EmbeddedServerError(message)


@contextmanager
def keep_running(child: Child, log: Log) -> Iterator[Process]:
    """Keep one ready child for the length of a block."""
    process = start(child, log)
    try:
        wait_ready(child, process)
        yield process
    finally:
        stop(child, process, log)


def describe_exit(code: int) -> str:
    """Return ``signal SIGKILL`` or ``exit code 1``."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def read_log_tail(child: Child) -> str:
    """Return the end of the child's log, for error messages."""
    with child.log_file.open("rb") as output:
        size = output.seek(0, os.SEEK_END)
        output.seek(max(0, size - _TAIL_BYTES))
        lines = output.read().decode("utf-8", "replace").splitlines()[-_TAIL_LINES:]
    return "".join([f"; the end of {child.log_file}:", *(f"\n  {line}" for line in lines)])


def _end(identity: ProcessIdentity, child: Child) -> None:
    for number, patience_s in (*child.stop_signals, (signal.SIGKILL, 10.0)):
        with suppress(ProcessLookupError):
            os.kill(identity.pid, number)
            # A stopped process would let every other signal wait.
            os.kill(identity.pid, signal.SIGCONT)
        if _wait_gone(identity, patience_s):
            return
    message = f"{child.name} (process {identity.pid}) does not end, not even by SIGKILL"
    raise EmbeddedServerError(message)


def _wait_gone(identity: ProcessIdentity, patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while is_alive(identity):
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_S)
    return True


def _kill_group(pid: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)

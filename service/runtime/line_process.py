"""A process that writes lines: its start, its output and its end.

It is a fresh program in its own process group, with a deadline that works inside C calls.
"""

import ctypes
import os
import select
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from signal import Signals
from typing import IO, TypeVar

from service.runtime.child_environ import select_environ
from service.runtime.deadline import Allowance, DeadlineExceeded, DeadlineWatch, read_waited_s
from service.runtime.logs import get_logger
from service.runtime.process_user import ProcessUser

TERMINATE_GRACE_S = 2.0
"""Time that a process may take to end after SIGTERM.

With the read of the job's row, a cancelled job ends well within six seconds.
"""
KILL_GRACE_S = 1.0
"""Time that the kernel may take to end a killed process.

A driver that hangs keeps a process for as long as it likes.
"""
EXIT_GRACE_S = 5.0
"""Time that a process which closed its output may take to exit."""
TICK_S = 0.1
STDERR_TAIL_BYTES = 4096
_CHUNK_BYTES = 1 << 16
_log = get_logger(__name__)
_PR_SET_PDEATHSIG = 1
Process = subprocess.Popen[bytes]
Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process was killed because its answer is no longer wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    """The process ended, or closed its output, without an answer.

    ``signal`` is the one that ended it, ``status`` its own; both are None while it runs on.
    ``stderr`` is the end of what it wrote there.
    """

    stderr: str
    signal: Signals | None = None
    status: int | None = None

    def describe(self) -> str:
        """Return how it ended, in words."""
        if self.signal is not None:
            return f"was killed by {self.signal.name} without an answer"
        if self.status is not None:
            return f"ended with status {self.status} without an answer"
        return "closed its output and went on running"


@contextmanager
def start_process(
    command: Sequence[str],
    request: bytes,
    *,
    environ: Mapping[str, str] | None = None,
    pass_fds: Sequence[int] = (),
    ties_to_parent: bool = False,
    user: ProcessUser | None = None,
) -> Iterator[Process]:
    """Run ``command`` for the length of a block.

    It gets the request on its stdin and runs in ``environ``, by default what `select_environ`
    leaves of this process's. On leaving, nothing of its process group is left. It inherits the
    files of ``pass_fds``, and no others. With ``ties_to_parent`` the
    kernel ends it with its parent, where its own program would not ask for that: call it from the
    main thread then, and before any other thread exists, since between fork and exec the child runs
    Python. With ``user`` it runs as that one, in a home of its own.
    """
    variables = dict(select_environ(os.environ) if environ is None else environ)
    with ExitStack() as stack:
        owner = None if user is None else stack.enter_context(user.open_home())
        stdin = stack.enter_context(tempfile.TemporaryFile())
        stdin.write(request)
        stdin.seek(0)
        parent = os.getpid()
        process = subprocess.Popen(  # noqa: S603 - our own module, or what the operator chose
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=variables if owner is None else owner.move_home(variables),
            pass_fds=tuple(pass_fds),
            start_new_session=True,
            preexec_fn=(lambda: die_with_parent(parent)) if ties_to_parent else None,  # noqa: PLW1509 - safe while the caller has one thread
            **({} if owner is None else owner.process_options),
        )
        stdin.close()
        try:
            yield process
        finally:
            kill_group(process)
            for pipe in (process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()


def follow_process(
    process: Process,
    take_line: Callable[[bytes], Answer | None],
    *,
    allowance: Allowance,
    max_line_bytes: int,
    should_stop: Callable[[], bool],
    on_stderr: Callable[[bytes], None] = lambda _chunk: None,
) -> Answer | DeadlineExceeded | Stopped | Ended:
    """Read lines until one is the answer.

    ``take_line`` returns the answer of a line, ``on_stderr`` gets stderr in chunks; what was
    written there before the answer comes before the answer.
    """
    reader = _Reader(process, on_stderr, max_line_bytes)
    watch = DeadlineWatch(allowance=allowance, read_waited_s=partial(read_waited_s, process.pid))
    with reader.open() as readable:
        while readable():
            for line in reader.take_lines():
                answer = take_line(line)
                if answer is not None:
                    reader.drain_stderr()
                    return answer
            if should_stop():
                return Stopped()
            exceeded = watch.check()
            if exceeded is not None:
                return exceeded
    return _describe_end(process, reader.stderr_tail())


def kill_group(process: Process) -> None:
    """End a process and its group: SIGTERM, then SIGKILL."""
    if process.returncode is not None:
        return
    # The leader is reaped last: until then nobody else can have its number, so the signals reach
    # its group only.
    _signal_group(process, signal.SIGTERM)
    _wait_unreaped(process, TERMINATE_GRACE_S)
    _signal_group(process, signal.SIGKILL)
    try:
        process.wait(KILL_GRACE_S)
    except subprocess.TimeoutExpired:
        # Its job must not hang with it: the account is written, and the kernel ends the process
        # when it can.
        _log.warning("probe.unkillable", pid=process.pid)


def die_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends.

    The parent is the thread that made it (prctl(2), PR_SET_PDEATHSIG); Linux only.
    """
    if sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        # The parent ended before the kernel was asked.
        os.kill(os.getpid(), signal.SIGKILL)


def _signal_group(process: Process, number: Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait_unreaped(process: Process, timeout_s: float) -> os.waitid_result | None:
    """Wait for the leader's end without reaping it.

    Returns None when it still runs after ``timeout_s``.
    """
    end = time.monotonic() + timeout_s
    while (ended := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if time.monotonic() >= end:
            return None
        time.sleep(TICK_S / 10)
    return ended


def _describe_end(process: Process, stderr: str) -> Ended:
    ended = _wait_unreaped(process, EXIT_GRACE_S)
    if ended is None:
        return Ended(stderr=stderr)
    if ended.si_code != os.CLD_EXITED:
        return Ended(stderr=stderr, signal=Signals(ended.si_status))
    return Ended(stderr=stderr, status=ended.si_status)


@dataclass(slots=True)
class _Reader:
    """Reader of a process's stdout by lines, and of its stderr's end."""

    process: Process
    on_stderr: Callable[[bytes], None]
    max_line_bytes: int
    _partial_line: bytes = b""
    _lines: list[bytes] = field(default_factory=list)
    _stderr: bytes = b""

    @contextmanager
    def open(self) -> Iterator[Callable[[], bool]]:
        """Yield a function that reads for at most one tick.

        It returns whether there may be more.
        """
        with selectors.DefaultSelector() as selector:
            for pipe, sink in (
                (self.process.stdout, self._feed),
                (self.process.stderr, self._feed_stderr),
            ):
                if pipe is not None:
                    selector.register(pipe, selectors.EVENT_READ, sink)

            def readable() -> bool:
                if (
                    self.process.stdout is None
                    or self.process.stdout.fileno() not in selector.get_map()
                ):
                    return False
                ready = selector.select(TICK_S)
                for key, _events in ready:
                    if not _drain(key.fileobj, key.data):  # type: ignore[arg-type]  # what was registered above
                        selector.unregister(key.fileobj)
                # A pipe that a grandchild inherited never ends; with its leader gone and nothing to
                # read, it has.
                return bool(ready) or _wait_unreaped(self.process, 0) is None

            yield readable

    def take_lines(self) -> list[bytes]:
        """Return the complete lines since the last call."""
        lines, self._lines = self._lines, []
        return lines

    def stderr_tail(self) -> str:
        """Return the last of what the process wrote to stderr."""
        return self._stderr.decode(errors="replace").replace("\0", "")

    def drain_stderr(self) -> None:
        """Read what has been written to stderr already."""
        pipe = self.process.stderr
        if pipe is not None and select.select([pipe], [], [], 0)[0]:
            _drain(pipe, self._feed_stderr)

    def _feed(self, chunk: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        self._lines += [line for line in lines if line.strip()]
        if len(self._partial_line) > self.max_line_bytes:
            self._lines.append(self._partial_line)
            self._partial_line = b""

    def _feed_stderr(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-STDERR_TAIL_BYTES:]
        self.on_stderr(chunk)


def _drain(pipe: IO[bytes], sink: Callable[[bytes], None]) -> bool:
    chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
    sink(chunk)
    return bool(chunk)

"""One probe process: its start, its output and its end.

A probe is a fresh interpreter in its own process group that writes JSON lines, with a deadline that
works inside C calls.
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
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import IO

from service.jobs.codec import decode_line, encode_request
from service.jobs.contract import (
    ProbeFailure,
    ProbeLine,
    ProbeRequest,
    ProbeResult,
    ProbeUpdate,
    ProtocolError,
)
from service.runtime.logs import get_logger
from worker.probe_log import parse_event

TERMINATE_GRACE_S = 2.0
"""Time that a probe may take to end after SIGTERM.

With the read of the job's row, a cancelled job ends well within six seconds.
"""
KILL_GRACE_S = 1.0
"""Time that the kernel may take to end a killed process.

A driver that hangs keeps a process for as long as it likes.
"""
EXIT_GRACE_S = 5.0
"""Time that a probe which has answered may take to exit."""
TICK_S = 0.1
MAX_LINE_BYTES = 1 << 20
STDERR_TAIL_BYTES = 4096
STDERR_EXCERPT_CHARS = 500
_CHUNK_BYTES = 1 << 16
_log = get_logger(__name__)
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The process ended without an answer; another attempt may do better."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadlineExceeded:
    """The process was killed at its deadline."""

    deadline_s: float


@dataclass(frozen=True, slots=True)
class Stopped:
    """The process was killed because its answer is no longer wanted."""


Outcome = ProbeResult | ProbeFailure | Died | DeadlineExceeded | Stopped


@contextmanager
def start_probe(
    command: Sequence[str], request: ProbeRequest, environ: Mapping[str, str] | None = None
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run ``command`` as a probe for the length of a block.

    It gets the request on its stdin and runs in ``environ``. On leaving, nothing of its process
    group is left. It inherits the files that the request names, and no others. Call it from the
    main thread and before any other thread exists: between fork and exec the child runs Python.
    """
    with tempfile.TemporaryFile() as stdin:
        stdin.write(encode_request(request))
        stdin.seek(0)
        parent = os.getpid()
        process = subprocess.Popen(  # noqa: S603 - the operator chose the command
            command,
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environ,
            pass_fds=tuple(request.files.values()),
            start_new_session=True,
            preexec_fn=lambda: die_with_parent(parent),  # noqa: PLW1509 - safe while the caller has one thread
        )
    try:
        yield process
    finally:
        kill_group(process)
        for pipe in (process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()


def follow_probe(
    process: "subprocess.Popen[bytes]",
    *,
    deadline_s: float,
    on_line: Callable[[ProbeUpdate], None],
    should_stop: Callable[[], bool],
    on_stderr: Callable[[bytes], None] = lambda _chunk: None,
) -> Outcome:
    """Read the probe's lines until it answers or must end.

    It ends when it dies, is no longer wanted, or ``deadline_s`` seconds have passed. ``on_stderr``
    gets its stderr in chunks; what it wrote there before its answer comes before the answer.
    """
    reader = _Reader(process, on_stderr)
    end = time.monotonic() + deadline_s
    with reader.open() as readable:
        while readable():
            for line in reader.take_lines():
                answer = _take(line, on_line)
                if answer is not None:
                    reader.drain_stderr()
                    return answer
            if should_stop():
                return Stopped()
            if time.monotonic() > end:
                return DeadlineExceeded(deadline_s=deadline_s)
    return Died(reason=_describe_death(process, reader.stderr_tail()))


def kill_group(process: "subprocess.Popen[bytes]") -> None:
    """End the probe and its process group: SIGTERM, then SIGKILL."""
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


def _take(
    line: bytes, on_line: Callable[[ProbeUpdate], None]
) -> ProbeResult | ProbeFailure | Died | None:
    try:
        message: ProbeLine = decode_line(line)
    except ProtocolError as error:
        return Died(reason=f"the probe wrote {line[:80]!r}: {error}")
    if isinstance(message, ProbeResult | ProbeFailure):
        return message
    on_line(message)
    return None


def _signal_group(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _wait_unreaped(process: "subprocess.Popen[bytes]", timeout_s: float) -> os.waitid_result | None:
    """Wait for the leader's end without reaping it.

    Returns None when it still runs after ``timeout_s``.
    """
    end = time.monotonic() + timeout_s
    while (ended := os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is None:
        if time.monotonic() >= end:
            return None
        time.sleep(TICK_S / 10)
    return ended


def _describe_death(process: "subprocess.Popen[bytes]", stderr: str) -> str:
    ended = _wait_unreaped(process, EXIT_GRACE_S)
    if ended is None:
        return "the probe closed its output and went on running"
    killed = ended.si_code != os.CLD_EXITED
    cause = (
        f"was killed by {signal.Signals(ended.si_status).name}"
        if killed
        else f"ended with status {ended.si_status}"
    )
    # What the probe logged is in the log; of an error it would say as little as of anything.
    excerpt = "\n".join(
        line for line in stderr.replace("\0", "").splitlines() if parse_event(line.encode()) is None
    ).strip()
    return f"the probe {cause} without an answer" + (
        f"; its last words: {excerpt[-STDERR_EXCERPT_CHARS:]}" if excerpt else ""
    )


@dataclass(slots=True)
class _Reader:
    """Reader of a process's stdout by lines, and of its stderr's end."""

    process: "subprocess.Popen[bytes]"
    on_stderr: Callable[[bytes], None]
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
        """Return the last of what the probe wrote to stderr."""
        return self._stderr.decode(errors="replace")

    def drain_stderr(self) -> None:
        """Read what has been written to stderr already."""
        pipe = self.process.stderr
        if pipe is not None and select.select([pipe], [], [], 0)[0]:
            _drain(pipe, self._feed_stderr)

    def _feed(self, chunk: bytes) -> None:
        *lines, self._partial_line = (self._partial_line + chunk).split(b"\n")
        self._lines += [line for line in lines if line.strip()]
        if len(self._partial_line) > MAX_LINE_BYTES:
            self._lines.append(self._partial_line)
            self._partial_line = b""

    def _feed_stderr(self, chunk: bytes) -> None:
        self._stderr = (self._stderr + chunk)[-STDERR_TAIL_BYTES:]
        self.on_stderr(chunk)


def _drain(pipe: IO[bytes], sink: Callable[[bytes], None]) -> bool:
    chunk = os.read(pipe.fileno(), _CHUNK_BYTES)
    sink(chunk)
    return bool(chunk)

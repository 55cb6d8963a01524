"""The recorder as a process of its own: started, followed, ended.

It writes JSON lines: what is counted of the model, how far it is, and a document or why not.
"""

import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import IO, Any

from service.usecases.recordings.configs import Config, check_recordable

RECORDER = (sys.executable, "-m", "worker.probes.architecture")
PACKAGES = ("torch", "transformers")
DEADLINE_S = 1800.0
"""Time by the clock, on a machine that does other things too; the recorder itself bounds what it
takes of the processor.
"""
_TICK_S = 0.2
_CHUNK_BYTES = 1 << 16
_MAX_LINE_BYTES = 64 * 2**20
_TAIL_BYTES = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class StaticPart:
    """Parameters of a model as transformers builds it, by kind of module."""

    total: int
    by_kind: Mapping[str, int]
    transformers: str
    torch: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Share of a recording that is done, and what is done now."""

    fraction: float
    phase: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """The document of a recording that is complete."""

    document: Mapping[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """Why a model cannot be recorded, now or at another attempt."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Died:
    """The recorder ended without an answer; another attempt may do better."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stopped:
    """The recorder was ended because nobody wants its answer."""


Update = StaticPart | Progress
Outcome = Recorded | Refused | Died | Stopped


def list_missing_packages() -> list[str]:
    """Return the packages that a recorder here would lack."""
    return [name for name in PACKAGES if find_spec(name) is None]


def record_config(
    config: Config,
    *,
    on_update: Callable[[Update], None],
    should_stop: Callable[[], bool] = lambda: False,
    command: Sequence[str] = RECORDER,
    deadline_s: float = DEADLINE_S,
) -> Outcome:
    """Record a config in a process with bounds of memory and time.

    Raises InvalidConfigError for what no process is started for.
    """
    check_recordable(config)
    with tempfile.TemporaryFile() as request, tempfile.TemporaryFile() as errors:
        request.write(json.dumps({"config": dict(config), "parent": os.getpid()}).encode())
        request.seek(0)
        process = subprocess.Popen(  # noqa: S603 - our own module, or what the operator chose
            command, stdin=request, stdout=subprocess.PIPE, stderr=errors, start_new_session=True
        )
        try:
            outcome = _follow(process, on_update, should_stop, deadline_s)
        finally:
            _end(process)
        if outcome is not None:
            return outcome
        if process.returncode == -signal.SIGXCPU:
            return Refused(message="it takes more time of a processor to record than is allowed")
        return Died(reason=_describe_end(process.returncode, errors))


def _follow(
    process: "subprocess.Popen[bytes]",
    on_update: Callable[[Update], None],
    should_stop: Callable[[], bool],
    deadline_s: float,
) -> Outcome | None:
    """Return the process's answer, None where it ended without one."""
    assert process.stdout is not None  # noqa: S101 - a pipe was asked for
    end, pending = time.monotonic() + deadline_s, b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < end:
            if should_stop():
                return Stopped()
            if not selector.select(_TICK_S):
                continue
            chunk = os.read(process.stdout.fileno(), _CHUNK_BYTES)
            if not chunk or len(pending) > _MAX_LINE_BYTES:
                return None
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                message = _parse(line)
                if isinstance(message, Recorded | Refused):
                    return message
                on_update(message)
    return Died(reason=f"the recorder took longer than {deadline_s:.0f} s and was ended")


def _parse(line: bytes) -> StaticPart | Progress | Recorded | Refused:
    message: dict[str, Any] = json.loads(line)
    match message.pop("kind"):
        case "static":
            return StaticPart(**message)
        case "progress":
            return Progress(**message)
        case "recorded":
            return Recorded(**message)
        case _:
            return Refused(**message)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """Leave nothing of the process's group."""
    # The leader is reaped last: until then nobody else can have its number.
    with suppress(subprocess.TimeoutExpired):
        if process.stdout is not None and process.poll() is None:
            process.wait(_TICK_S)
    if process.returncode is None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _describe_end(status: int, errors: IO[bytes]) -> str:
    cause = f"was ended by {signal.Signals(-status).name}" if status < 0 else f"left with {status}"
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - _TAIL_BYTES))
    lines = errors.read().decode(errors="replace").replace("\0", "").strip().splitlines()
    return f"the recorder {cause}" + (f": {lines[-1][-500:]}" if lines else "")

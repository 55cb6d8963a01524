"""A cluster kept up to date by a repeated command."""

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from signal import SIGINT, SIGTERM, signal
from typing import Protocol

from service.base.errors import InvalidRequestError, ServiceError
from service.base.server_refusals import ServerRefusalError
from service.cli.http import Document
from service.contract.schemas.inventories.imports import MAX_IMPORT_BYTES
from service.terminal.controls import spell_controls

MAX_FAILURES = 20
"""In a row, before the command gives up."""
MAX_PAUSE_S = 600.0
MAX_COMMAND_S = 300.0
_LOOK_S = 0.1
_CHANGED = 412
_SHOWN_ERROR = 300

Wait = Callable[[float], bool]
"""Waits so many seconds; returns whether the end has come."""


class Send(Protocol):
    """Sender of a command's output."""

    def __call__(
        self, output: str, *, etag: str | None = None, applies: bool = False
    ) -> tuple[Document, str | None]:
        """Return the answer, and the version that is stored then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """Every so many seconds, ``limit`` times, 0 for until the end."""

    interval_s: float
    limit: int = 0


def repeat(
    run: Callable[[], str],
    send: Send,
    show: Callable[[Document], None],
    rounds: Rounds,
    wait: Wait,
) -> int:
    """Import what ``run`` prints until ``wait`` says that the end has come.

    A round that fails is told on stderr and the next one waits twice as long. Returns the exit
    code: 0, or 2 after too many failures in a row.
    """
    etag: str | None = None
    failures = done = 0
    while True:
        try:
            answer, etag = _import_once(run(), send, etag)
        except ServiceError as error:
            if wait(0):
                return 0
            failures += 1
            etag = None
            sys.stderr.write(f"failed {failures} times in a row: {spell_controls(error.detail)}\n")
            if failures >= MAX_FAILURES:
                return 2
        else:
            failures = 0
            if answer["num_changes"] or not done:
                show(answer)
        done += 1
        pause_s = min(rounds.interval_s * 2**failures, max(MAX_PAUSE_S, rounds.interval_s))
        if done == rounds.limit or wait(pause_s):
            return 0 if failures == 0 else 2


def _import_once(output: str, send: Send, etag: str | None) -> tuple[Document, str | None]:
    """Apply one output to the version seen last.

    Somebody may have changed the cluster meanwhile: then what changes is looked at anew.
    """
    if etag is not None:
        try:
            return send(output, etag=etag, applies=True)
        except ServerRefusalError as error:
            if error.document.get("status") != _CHANGED:
                raise
    _, seen = send(output)
    return send(output, etag=seen, applies=True)


def run_command(command: Sequence[str], stop: threading.Event) -> str:
    """Return what a command prints, bounded in size and time.

    Raises InvalidRequestError where it fails. It is ended when ``stop`` is set.
    """
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        try:
            process = subprocess.Popen(command, stdout=output, stderr=errors)  # noqa: S603 - the user's own words
        except OSError as error:
            message = f"cannot run {command[0]}: {error.strerror}"
            raise InvalidRequestError(message) from None
        try:
            reason = _await_end(process, output.fileno, stop)
        finally:
            if process.poll() is None:
                process.kill()
            process.wait()
        errors.seek(0)
        message_text = errors.read(_SHOWN_ERROR).decode("utf-8", "replace").strip()
        if reason is not None or process.returncode:
            detail = f": {message_text}" if message_text else ""
            message = f"{command[0]} {reason or f'ended with code {process.returncode}'}{detail}"
            raise InvalidRequestError(message)
        output.seek(0)
        return output.read().decode("utf-8", "replace")


def _await_end(
    process: "subprocess.Popen[bytes]", fileno: Callable[[], int], stop: threading.Event
) -> str | None:
    """Return why a command was not awaited to its end, if so."""
    for _ in range(int(MAX_COMMAND_S / _LOOK_S)):
        with suppress(subprocess.TimeoutExpired):
            process.wait(_LOOK_S)
        if os.fstat(fileno()).st_size > MAX_IMPORT_BYTES:
            return f"printed more than {MAX_IMPORT_BYTES:,} bytes"
        if process.returncode is not None:
            return None
        if stop.is_set():
            return "was ended"
    return f"took more than {MAX_COMMAND_S:.0f} seconds"


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGINT and SIGTERM set."""
    stop = threading.Event()

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()

    handlers = [(number, signal(number, on_signal)) for number in (SIGINT, SIGTERM)]
    try:
        yield stop
    finally:
        for number, handler in handlers:
            signal(number, handler)

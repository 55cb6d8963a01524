"""A whole Headroom in a directory of its own."""

import contextlib
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from service.embedded.identity import is_alive, read_record
from tests.running.folders import make_folder
from tests.running.forked import ForkedProgram

_READY = "Headroom is ready at "
_PATIENCE_S = 90.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    """A ``headroom up`` that is ready, its address, and where it keeps everything."""

    process: subprocess.Popen[str]
    url: str
    data_dir: Path

    def parts(self) -> dict[str, int]:
        """Return the process id of every part that it records: api, reconcile, worker-1, tracer,
        postgres, redis.
        """
        found = {
            path.stem: read_record(path) for path in (self.data_dir / "records").glob("*.json")
        }
        return {
            name: record.pid
            for name, record in found.items()
            if record is not None and is_alive(record)
        }

    def all_below(self) -> list[psutil.Process]:
        """Return every process below it, at any depth."""
        below: list[psutil.Process] = psutil.Process(self.process.pid).children(recursive=True)
        return below

    def stop(self, number: signal.Signals = signal.SIGINT) -> int:
        """Send a signal and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=_PATIENCE_S)


Up = Callable[..., Running]


def headroom(
    *arguments: str, program: str = "tests.running.program", **changes: str
) -> subprocess.Popen[str]:
    """Start the command with an environment of its own.

    It is a fresh one where that changes what Python finds. ``program`` is a module that stands for
    the command: one whose children have the priority of whoever waits for them.
    """
    options: dict[str, Any] = {
        "stdout": subprocess.PIPE,
        "stderr": subprocess.PIPE,
        "text": True,
        "env": environment(changes),
    }
    if "PYTHONPATH" in changes:
        return subprocess.Popen([sys.executable, "-m", "service", *arguments], **options)
    return ForkedProgram(program, *arguments, **options)


def environment(changes: Mapping[str, str]) -> dict[str, str]:
    """Return this environment without the settings of whoever runs the tests."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    for name in ("DATABASE_URL", "REDIS_URL"):
        ours.pop(name, None)
    return {**ours, **changes}


def await_line(process: subprocess.Popen[str]) -> str:
    """Return the next line of its output; fail with what it said on stderr when there is none in
    time.
    """
    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        line = process.stdout.readline() if selector.select(_PATIENCE_S) else ""
    if not line:
        process.kill()
        pytest.fail(f"no line of output; stderr: {process.communicate()[1]}")
    return line


@contextlib.contextmanager
def _starter(directory: Path) -> Iterator[Up]:
    with ExitStack() as stack:

        def start(*arguments: str, **changes: str) -> Running:
            data_dir = directory / "data"
            process = headroom(
                "up", "--port", "0", "--data-dir", str(data_dir), *arguments, **changes
            )
            stack.callback(_end, process)
            line = await_line(process)
            assert line.startswith(_READY)
            return Running(
                process=process, url=line.removeprefix(_READY).strip(), data_dir=data_dir
            )

        yield start


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """Return an empty directory whose path leaves room for a socket."""
    with make_folder() as path:
        yield path


@pytest.fixture
def up(short_dir: Path) -> Iterator[Up]:
    """Return a starter of ``headroom up``; what still runs at the end is stopped."""
    with _starter(short_dir) as start:
        yield start


@pytest.fixture(scope="module")
def whole() -> Iterator[Running]:
    """Return one that tests share: each leaves it ready, with every part running."""
    with make_folder() as path, _starter(path) as start:
        yield start()


@pytest.fixture(scope="module")
def idle() -> Iterator[Running]:
    """Return one without workers that tests share: what they store has names of their own."""
    with make_folder() as path, _starter(path) as start:
        yield start("--workers", "0")


def _end(process: subprocess.Popen[str]) -> None:
    if process.poll() is None:
        below = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(signal.SIGINT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=_PATIENCE_S)
        for left in below:
            with contextlib.suppress(psutil.NoSuchProcess):
                left.kill()
    process.kill()
    process.communicate()

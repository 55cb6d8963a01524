"""Children that are forks of this process, with every module loaded.

What a fresh interpreter would import for seconds is in their memory, which they share. Only a
process with one thread may fork: another's locks would stay closed in the child.
"""

import gc
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from service.embedded.launch import prepare

_FORK = multiprocessing.get_context("fork")
_OPEN_FILES = Path("/proc/self/fd")
_NAME = Path("/proc/self/comm")
"""What ``ps -e`` and ``top`` show; the command line of a fork stays its parent's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleMain:
    """``main`` of a module, which takes arguments and returns an exit code."""

    module: str
    arguments: tuple[str, ...]

    def run(self) -> int:
        """Call it."""
        code: int = import_module(self.module).main(self.arguments)
        return code


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """Surroundings of a fork.

    ``output`` is the file of what it writes, ``pass_fds`` are the others that it has open.
    """

    name: str
    parent: int
    death_signal: int
    user: int | None
    output: int
    environment: Mapping[str, str]
    pass_fds: tuple[int, ...]


class ForkedProcess:
    """A fork, asked and awaited as a ``subprocess.Popen`` is."""

    def __init__(self, program: ModuleMain, surroundings: Surroundings) -> None:
        """Start it.

        It is ready for signals, and in a session of its own, when this returns.
        """
        if threading.active_count() > 1:
            message = f"a process with {threading.active_count()} threads must not fork"
            raise RuntimeError(message)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        prepared, preparing = os.pipe()
        self._process = _FORK.Process(target=_run_child, args=(program, surroundings, preparing))
        try:
            self._process.start()
        finally:
            os.close(preparing)
        # Nobody writes: its end is that the child has closed the file, or has ended.
        os.read(prepared, 1)
        os.close(prepared)

    @property
    def pid(self) -> int:
        """Return its process id."""
        assert self._process.pid is not None  # noqa: S101 - it was started
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """Return what ``poll`` does."""
        return self.poll()

    def poll(self) -> int | None:
        """Return its exit code, or None while it runs.

        Below 0 it is a signal's.
        """
        return self._process.exitcode

    def wait(self) -> int:
        """Wait for its end; return its exit code."""
        self._process.join()
        code = self._process.exitcode
        assert code is not None  # noqa: S101 - it was joined
        return code


def preload(modules: Collection[str]) -> None:
    """Import what forks need, and keep it out of every garbage collection.

    A collection writes into each object, and would copy the memory that forks share.
    """
    for module in modules:
        import_module(module)
    gc.collect()
    gc.freeze()


def _run_child(program: ModuleMain, surroundings: Surroundings, preparing: int) -> None:
    os.setsid()
    _NAME.write_text(surroundings.name, encoding="utf-8")
    forget_handlers()
    prepare(
        parent=surroundings.parent,
        death_signal=surroundings.death_signal,
        user=surroundings.user,
    )
    with Path(os.devnull).open("rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    # multiprocessing reads from a file of another number, which is closed below.
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - a number is no path, and it stays open
    os.dup2(surroundings.output, 1)
    os.dup2(surroundings.output, 2)
    if surroundings.user is not None:
        os.chdir("/")
    os.environ.clear()
    os.environ.update(surroundings.environment)
    close_files({0, 1, 2, preparing, *surroundings.pass_fds})
    os.close(preparing)
    sys.exit(program.run())


def forget_handlers() -> None:
    """Handle signals as a fresh interpreter does; what is ignored stays so."""
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            is_interrupt = number == signal.SIGINT
            signal.signal(number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def close_files(kept: Collection[int]) -> None:
    """Close all files but those that are kept."""
    # The objects that had them are held by frames below this one until the process ends.
    for number in [int(file.name) for file in _OPEN_FILES.iterdir()]:
        if number not in kept:
            with suppress(OSError):
                os.close(number)

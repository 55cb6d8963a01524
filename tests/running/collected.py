"""Fork server of xdist's processes: it has collected the tests, whose modules they share.

``python -m tests.running.collected CONTROL LISTENER PYTEST'S ARGUMENTS…``. Each process would load
torch, the service and the tests for itself, for twenty processor seconds and more; a fork finds
them loaded, and makes items of them in a fifth of that.
"""

import gc
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.running.fork_server import serve_forks

_UNFORKABLE = frozenset({"helm_python"})
"""Modules of a Go runtime, of whose threads Python does not know."""


def main() -> None:
    """Collect, and serve."""
    numbers, arguments = sys.argv[1:3], sys.argv[3:]
    # What cannot be collected is told by the processes, which try again. Modules that keep
    # ``sys.stderr`` must not keep one that ends with the capturing of the collection.
    options = ("--collect-only", "-qq", "--capture=no", "--numprocesses=0", "--dist=no")
    with _silence_output():
        pytest.main([*arguments, *options])
    if threading.active_count() > 1:
        message = f"the collection of tests started threads: {threading.enumerate()}"
        raise RuntimeError(message)
    if loaded := _UNFORKABLE & sys.modules.keys():
        message = f"a module of tests imports {', '.join(loaded)}, which survives no fork: load it "
        raise RuntimeError(f"{message}in the test that needs it")
    gc.collect()
    gc.freeze()
    serve_forks(numbers)


@contextmanager
def _silence_output() -> Iterator[None]:
    sys.stdout.flush()
    output = os.dup(1)
    with Path(os.devnull).open("wb") as nothing:
        os.dup2(nothing.fileno(), 1)
    yield
    sys.stdout.flush()
    os.dup2(output, 1)
    os.close(output)


if __name__ == "__main__":
    main()

"""The service of a checkout: everything embedded, in a folder of its own."""

import os
import re
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_READY = re.compile(r"(http://[0-9.]+:\d+)")
_READY_WITHIN_S = 120.0
_STOPPED_WITHIN_S = 30.0
_OURS = ("HEADROOM_", "DATABASE_URL", "REDIS_URL", "OTEL_", "PYTHON")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """A checkout, and the package whose ``-m`` is its command line."""

    root: Path
    module: str

    def environment(self, home: Path) -> Mapping[str, str]:
        """Return an environment in which this checkout's code is imported, and nothing is set."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
        words = {"PYTHONPATH": str(self.root), "HOME": str(home), "HEADROOM_LOG_LEVEL": "error"}
        return kept | words | {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "TZ": "UTC"}

    def argv(self, *words: str) -> list[str]:
        """Return a command of this checkout's command line."""
        return [sys.executable, "-m", self.module, *words]

    def check(self) -> None:
        """Refuse to judge where another checkout's code would be imported."""
        program = f"import {self.module}; print({self.module}.__path__[0])"
        command = [sys.executable, "-c", program]
        environment = self.environment(Path("/tmp"))  # noqa: S108
        done = subprocess.run(
            command, cwd=self.root, env=environment, capture_output=True, text=True, check=True
        )
        if not Path(done.stdout.strip()).is_relative_to(self.root):
            message = f"{self.module} comes from {done.stdout.strip()}, not from {self.root}"
            raise RuntimeError(message)


@contextmanager
def running(tree: Tree) -> Iterator[str]:
    """Yield the address of a fresh service without workers, and stop it."""
    # A Unix socket's path holds 107 bytes, so the folder has a short name.
    with tempfile.TemporaryDirectory(prefix="hr-", ignore_cleanup_errors=True) as folder:
        words = ("up", "--port", "0", "--workers", "0", "--data-dir", f"{folder}/data")
        process = subprocess.Popen(
            tree.argv(*words),
            cwd=tree.root,
            env=tree.environment(Path(folder)),
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            yield _address(process)
        finally:
            process.terminate()
            try:
                process.wait(_STOPPED_WITHIN_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _address(process: "subprocess.Popen[str]") -> str:
    """Return the address that the service prints when it is ready."""
    assert process.stdout is not None
    ends = time.monotonic() + _READY_WITHIN_S
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while time.monotonic() < ends:
            if not selector.select(timeout=1.0):
                continue
            line = process.stdout.readline()
            found = _READY.search(line)
            if found:
                return found[1]
            if not line:
                break
    message = f"the service is not ready (its status: {process.poll()})"
    raise RuntimeError(message)

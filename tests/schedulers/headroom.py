"""A Headroom of a bench's own, which real schedulers ask."""

import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager

_PATIENCE_S = 300.0


@contextmanager
def serve() -> Iterator[str]:
    """Yield the address of a Headroom; it ends with it."""
    url = f"http://127.0.0.1:{find_port()}"
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "service", "up", "--port", url.rpartition(":")[2]]
        options = ["--data-dir", folder, "--workers", "0", "--gpus", "none"]
        process = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HEADROOM_HOOK_DEADLINE_S": "20", "HEADROOM_HOOK_SEARCH_S": "20"},
        )
        try:
            await_answer(f"{url}/readyz")
            yield url
        finally:
            process.terminate()
            process.wait()


def find_port() -> int:
    """Return a port of this machine that is free."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def await_answer(url: str) -> None:
    """Wait until an address answers.

    Raises TimeoutError where it never does.
    """
    deadline = time.monotonic() + _PATIENCE_S
    while time.monotonic() < deadline:
        try:
            with urllib.request.urlopen(url, timeout=5):  # noqa: S310 - our own address
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    message = f"{url} did not answer within {_PATIENCE_S:.0f} s"
    raise TimeoutError(message)

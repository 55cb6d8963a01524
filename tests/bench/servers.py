"""Servers to measure: the service with everything embedded, and the raw ASGI floor, on ports of their own."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 60.0


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def service(data_dir: Path) -> Iterator[int]:
    """Run ``headroom up`` in a directory of its own; yield its port once it is ready."""
    port = free_port()
    command = [sys.executable, "-m", "service", "up", "--port", str(port), "--data-dir", str(data_dir)]
    with _running(command, f"http://127.0.0.1:{port}/readyz"):
        yield port


@contextmanager
def floor() -> Iterator[int]:
    """Run the raw ASGI application as the service is run; yield its port."""
    port = free_port()
    arguments = ["--port", str(port), "--no-access-log", "--log-level", "warning", "--loop", "uvloop", "--http", "httptools"]
    with _running([sys.executable, "-m", "uvicorn", "tests.bench.floor:app", *arguments], f"http://127.0.0.1:{port}/"):
        yield port


@contextmanager
def _running(command: list[str], url: str) -> Iterator[None]:
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
        try:
            _wait(process, url)
            yield
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)


def _wait(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"{process.args!r} ended with {process.returncode} before it answered")
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - a loopback address
                json.load(answer)
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    raise RuntimeError(f"{url} did not answer within {START_SECONDS:.0f} s")

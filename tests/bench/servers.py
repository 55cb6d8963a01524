"""Servers to measure, on ports of their own.

They are the service with everything embedded, and the raw ASGI floor.
"""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType

START_SECONDS = 300.0


def find_free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def run_service(data_dir: Path, **settings: str) -> Iterator[int]:
    """Run ``headroom up`` in its own directory and yield its port.

    It yields once the service is ready. ``settings`` are further variables of its environment.
    """
    port = find_free_port()
    command = [
        sys.executable,
        "-m",
        "service",
        "up",
        "--port",
        str(port),
        "--data-dir",
        str(data_dir),
    ]
    with run_program(command, f"http://127.0.0.1:{port}/readyz", settings):
        yield port


@contextmanager
def run_floor() -> Iterator[int]:
    """Run the raw ASGI application and yield its port.

    It runs as the service does.
    """
    port = find_free_port()
    arguments = [
        "--port",
        str(port),
        "--no-access-log",
        "--log-level",
        "warning",
        "--loop",
        "uvloop",
        "--http",
        "httptools",
    ]
    with run_program(
        [sys.executable, "-m", "uvicorn", "tests.bench.floor:app", *arguments],
        f"http://127.0.0.1:{port}/",
    ):
        yield port


@contextmanager
def run_program(
    command: list[str], url: str, settings: Mapping[str, str] = MappingProxyType({})
) -> Iterator[None]:
    """Run a program until the block ends, from when the URL answers."""
    environment = {**os.environ, **settings}
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            _wait_until_ready(process, url)
            yield
        finally:
            process.terminate()
            process.wait(timeout=START_SECONDS)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(
                f"{process.args!r} ended with {process.returncode} before it answered"
            )
        try:
            with urllib.request.urlopen(url, timeout=1) as answer:  # noqa: S310 - a loopback address
                json.load(answer)
                return
        except (OSError, urllib.error.URLError):
            time.sleep(0.05)
    raise RuntimeError(f"{url} did not answer within {START_SECONDS:.0f} s")

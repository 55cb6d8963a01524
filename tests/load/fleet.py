"""Processes under load, on loopback.

They are replicas of the API, a reconcile loop and workers, over one Postgres and one Redis.
"""

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import psutil

from service.db.migrate import upgrade
from service.embedded.postgres import run_postgres
from service.embedded.redis import run_redis
from tests.bench.servers import find_free_port
from tests.load.generator import Address

HOST = "127.0.0.1"
DEVICES = ("trace", "cpu")
START_S = 90.0
STOP_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """The running processes by name, and the replicas' addresses."""

    replicas: tuple[Address, ...]
    processes: Mapping[str, "subprocess.Popen[bytes]"]

    def cpu_seconds(self) -> dict[str, float]:
        """Return the processor time that each process has used.

        It includes everything below the process.
        """
        return {name: _read_cpu_seconds(process.pid) for name, process in self.processes.items()}


@contextmanager
def run_fleet(
    root: Path, *, num_replicas: int, devices: Sequence[str], settings: Mapping[str, str]
) -> Iterator[Fleet]:
    """Start all processes in an empty directory.

    Yields once every replica is ready, and stops them all.
    """
    with ExitStack() as stack:
        database_url = stack.enter_context(run_postgres(root / "postgres"))
        redis_url = stack.enter_context(run_redis(root / "redis"))
        upgrade(database_url)
        environment = {
            **os.environ,
            **settings,
            "DATABASE_URL": database_url,
            "REDIS_URL": redis_url,
        }
        ports = [find_free_port() for _ in range(num_replicas)]
        commands: dict[str, tuple[str, ...]] = {
            f"api {number}": ("service", "serve", "--port", str(port))
            for number, port in enumerate(ports, 1)
        }
        commands["reconcile"] = ("service", "reconcile")
        commands |= {
            f"worker {number} ({device})": ("worker", "--device", device)
            for number, device in enumerate(devices, 1)
        }
        log = stack.enter_context((root / "log").open("wb"))
        processes = {
            name: stack.enter_context(_run_process(command, environment, log))
            for name, command in commands.items()
        }
        for name, port in zip(commands, ports, strict=False):
            _wait_until_ready(processes[name], f"http://{HOST}:{port}/readyz", root / "log")
        yield Fleet(
            replicas=tuple(Address(host=HOST, port=port) for port in ports), processes=processes
        )


@contextmanager
def _run_process(
    command: Sequence[str], environment: Mapping[str, str], log: IO[bytes]
) -> Iterator["subprocess.Popen[bytes]"]:
    # Each as the leader of a session of its own, as services and containers are: the kernel shares
    # processors among sessions.
    process = subprocess.Popen(
        [sys.executable, "-m", *command],
        env=environment,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_until_ready(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end and process.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=2):  # noqa: S310 - a loopback address
                return
        except OSError:
            time.sleep(0.05)
    message = f"{url} does not answer; the last it said: {log.read_text(errors='replace')[-2000:]}"
    raise RuntimeError(message)


def _read_cpu_seconds(pid: int) -> float:
    """Return the processor seconds of a process and its descendants.

    Those that have ended are among them.
    """
    try:
        leader = psutil.Process(pid)
        tree = [leader, *leader.children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0.0
    total = 0.0
    for process in tree:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total

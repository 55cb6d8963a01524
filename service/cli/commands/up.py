"""Start everything embedded, in the foreground: Postgres, Redis, API, reconcile loop and workers,
one for each GPU; Ctrl-C stops it all.
"""

import argparse
import os
import signal
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from urllib.parse import urlsplit

from service.base.packages import list_missing_packages
from service.base.startup_errors import StartupError
from service.cli.commands.worker import EXTRA
from service.cli.lifetimes import add_keep
from service.cli.local_workers import (
    WORKER,
    LocalWorkers,
    add_workers,
    admit_probes,
    choose_workers,
    describe_gpu_workers,
    make_worker_children,
)
from service.cli.serving.listen import add_access, get_url, listen, resolve_access
from service.embedded.children import Child, run_to_end
from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import Log
from service.embedded.forking import ModuleMain, preload
from service.embedded.postgres import build_postgres_url, make_postgres_child
from service.embedded.redis import build_redis_url, make_redis_child
from service.embedded.supervisor import (
    StopRequested,
    SupervisedChild,
    hold_signals,
    keep_children,
    supervise,
)
from service.runtime.logs import configure, get_logger
from service.runtime.settings import Settings
from service.terminal.arguments import parse_count

_SERVICE = "service.__main__"
_PARTS = tuple(f"service.cli.commands.{name}" for name in ("migrate", "reconcile", "serve"))
_READY_TIMEOUT_S = 2.0
_HTTP_OK = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the address, data directory and number of workers."""
    parser.add_argument("--host", help="address to listen on (default HEADROOM_HOST or 127.0.0.1)")
    parser.add_argument(
        "--port",
        type=parse_count,
        help="port to listen on (default HEADROOM_PORT or 8000; 0 takes a free one)",
    )
    add_access(parser)
    parser.add_argument(
        "--data-dir",
        type=Path,
        help="where everything is kept (default HEADROOM_DATA_DIR or the user's data)",
    )
    add_workers(parser)
    add_keep(parser)


def run(options: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM.

    Prints one line when the API is ready.
    """
    if sys.platform != "linux":
        message = (
            "`headroom up` ties its servers to Linux; elsewhere run `headroom serve` against "
            "DATABASE_URL and REDIS_URL"
        )
        raise StartupError(message)
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    log = get_logger("up")
    host, port = (
        options.host or settings.host,
        settings.port if options.port is None else options.port,
    )
    access = resolve_access(host, requested=options.access or settings.access)
    with (
        listen(host, port) as listener,
        hold_signals(),
        own_data_dir(options.data_dir or settings.data_dir, log) as data,
    ):
        try:
            workers = choose_workers(options, list_missing_packages(EXTRA), log)
            if workers.num_cpu or workers.gpus:
                admit_probes(log)
            keeping = () if options.keep is None else ("--keep", f"{options.keep}s")
            _run(listener, data, workers, log, access=access, keeping=keeping)
        except StopRequested:
            log.debug("up.stopped_while_starting")
    return 0


def _run(
    listener: socket.socket,
    data: DataDir,
    workers: LocalWorkers,
    log: Log,
    *,
    access: str,
    keeping: Sequence[str],
) -> None:
    with _run_servers(data, log) as (servers, urls):
        environment = {
            **os.environ,
            **urls,
            "HEADROOM_DATA_DIR": str(data.root),
            "HEADROOM_ACCESS": access,
        }
        if "REDIS_URL" not in urls:
            environment.pop("REDIS_URL", None)
        is_working = workers.num_cpu or workers.gpus
        preload((*_PARTS, *((WORKER,) if is_working else ())))
        run_to_end(_make_service_child(data, "migrate", environment), log)
        children = [
            _make_api_child(data, environment, listener),
            _make_service_child(data, "reconcile", environment, *keeping),
        ]
        children += make_worker_children(data, environment, workers)
        with keep_children(children, log) as services:
            sys.stdout.write(f"Headroom is ready at {get_url(listener)}\n")
            if workers.gpus:
                sys.stdout.write(f"{describe_gpu_workers(workers.gpus)}\n")
            sys.stdout.flush()
            supervise([*servers, *services], log)


@contextmanager
def _run_servers(
    data: DataDir, log: Log
) -> Iterator[tuple[list[SupervisedChild], Mapping[str, str]]]:
    """Run the servers that the environment does not name.

    Yields them with the URLs of both.
    """
    urls = {
        name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)
    }
    children: list[Child] = []
    if "DATABASE_URL" not in urls:
        children.append(make_postgres_child(data, log))
        urls["DATABASE_URL"] = build_postgres_url(data)
    if "REDIS_URL" not in urls:
        redis = make_redis_child(data, log)
        if redis is None:
            log.warning(
                "up.no_redis",
                effect=(
                    "workers ask Postgres every few seconds instead; install redis-server for less "
                    "delay"
                ),
            )
        else:
            children.append(redis)
            urls["REDIS_URL"] = build_redis_url(data)
    with keep_children(children, log) as servers:
        yield servers, urls


def _make_service_child(
    data: DataDir, command: str, environment: Mapping[str, str], *arguments: str
) -> Child:
    return Child(
        name=command,
        program=ModuleMain(module=_SERVICE, arguments=(command, *arguments)),
        record=data.record(command),
        log_file=data.log_file(command),
        is_ready=lambda _pid: True,
        stop_signals=((signal.SIGTERM, 5.0),),
        environment=environment,
    )


def _make_api_child(
    data: DataDir, environment: Mapping[str, str], listener: socket.socket
) -> Child:
    return Child(
        name="api",
        program=ModuleMain(module=_SERVICE, arguments=("serve", "--fd", str(listener.fileno()))),
        record=data.record("api"),
        log_file=data.log_file("api"),
        is_ready=partial(_is_answering, get_url(listener)),
        stop_signals=((signal.SIGTERM, 5.0),),
        environment=environment,
        # The supervisor keeps the socket: while the API restarts, clients wait instead of being
        # refused.
        pass_fds=(listener.fileno(),),
    )


def _is_answering(url: str, _pid: int) -> bool:
    address = urlsplit(url)
    assert address.hostname is not None  # noqa: S101 - we made the URL
    connection = HTTPConnection(address.hostname, address.port, timeout=_READY_TIMEOUT_S)
    try:
        connection.request("GET", "/readyz")
        return connection.getresponse().status == _HTTP_OK
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()

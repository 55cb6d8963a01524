"""Start everything embedded, in the foreground: Postgres, Redis, API, reconcile loop and worker; Ctrl-C stops it all."""

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

from service.base.errors import StartupError
from service.cli.commands.serve import add_access
from service.cli.commands.worker import missing_packages
from service.cli.lifetimes import add_keep
from service.cli.listen import access_on, listen, url_of
from service.embedded.children import Child, run_to_end
from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import Log
from service.embedded.postgres import postgres_child, postgres_url
from service.embedded.redis import redis_child, redis_url
from service.embedded.supervisor import Kept, StopRequested, kept, signals_held, supervise
from service.runtime.logs import configure, logger
from service.runtime.settings import Settings
from service.terminal.arguments import whole_number

_READY_TIMEOUT_S = 2.0
_HTTP_OK = 200


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the address, the data directory and the number of workers."""
    parser.add_argument("--host", help="address to listen on (default HEADROOM_HOST or 127.0.0.1)")
    parser.add_argument(
        "--port", type=whole_number, help="port to listen on (default HEADROOM_PORT or 8000; 0 takes a free one)"
    )
    add_access(parser)
    parser.add_argument("--data-dir", type=Path, help="where everything is kept (default HEADROOM_DATA_DIR or the user's data)")
    parser.add_argument(
        "--workers",
        type=whole_number,
        default=1,
        help="workers that measure on the CPU, beside one that traces (default 1; 0 for none)",
    )
    add_keep(parser)


def run(options: argparse.Namespace) -> int:
    """Run until SIGINT or SIGTERM; print one line when the API is ready."""
    if sys.platform != "linux":
        message = "`headroom up` ties its servers to Linux; elsewhere run `headroom serve` against DATABASE_URL and REDIS_URL"
        raise StartupError(message)
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    log = logger("up")
    host, port = options.host or settings.host, settings.port if options.port is None else options.port
    access = access_on(host, asked=options.access or settings.access)
    with listen(host, port) as listener, signals_held(), own_data_dir(options.data_dir or settings.data_dir, log) as data:
        try:
            num_workers = workers_to_start(options.workers, missing_packages(), log)
            keeping = () if options.keep is None else ("--keep", f"{options.keep}s")
            _run(listener, data, num_workers, log, access=access, keeping=keeping)
        except StopRequested:
            log.debug("up.stopped_while_starting")
    return 0


def _run(listener: socket.socket, data: DataDir, num_workers: int, log: Log, *, access: str, keeping: Sequence[str]) -> None:
    with _servers(data, log) as (servers, urls):
        environment = {**os.environ, **urls, "HEADROOM_DATA_DIR": str(data.root), "HEADROOM_ACCESS": access}
        if "REDIS_URL" not in urls:
            environment.pop("REDIS_URL", None)
        run_to_end(_ours(data, "migrate", environment), log)
        children = [_api(data, environment, listener), _ours(data, "reconcile", environment, *keeping)]
        children += [_worker(data, environment, f"worker-{number}", "cpu") for number in range(1, num_workers + 1)]
        if num_workers:
            children.append(_worker(data, environment, "tracer", "trace"))
        with kept(children, log) as ours:
            sys.stdout.write(f"Headroom is ready at {url_of(listener)}\n")
            sys.stdout.flush()
            supervise([*servers, *ours], log)


@contextmanager
def _servers(data: DataDir, log: Log) -> Iterator[tuple[list[Kept], Mapping[str, str]]]:
    """Run the servers that the environment does not name, and yield them with the URLs of both."""
    urls = {name: os.environ[name] for name in ("DATABASE_URL", "REDIS_URL") if os.environ.get(name)}
    children: list[Child] = []
    if "DATABASE_URL" not in urls:
        children.append(postgres_child(data, log))
        urls["DATABASE_URL"] = postgres_url(data)
    if "REDIS_URL" not in urls:
        redis = redis_child(data, log)
        if redis is None:
            log.warning(
                "up.no_redis", effect="workers ask Postgres every few seconds instead; install redis-server for less delay"
            )
        else:
            children.append(redis)
            urls["REDIS_URL"] = redis_url(data)
    with kept(children, log) as servers:
        yield servers, urls


def workers_to_start(wanted: int, missing: Sequence[str], log: Log) -> int:
    """Return how many workers can be started, and say it when that is none."""
    if not wanted:
        log.warning("up.no_worker", effect="measurements wait for a worker", mend="--workers 1, or run `headroom worker`")
    elif missing:
        log.warning(
            "up.no_worker", missing=", ".join(missing), effect="measurements wait for a worker", mend="gpu-headroom[worker]"
        )
    return 0 if missing else wanted


def _ours(data: DataDir, command: str, environment: Mapping[str, str], *arguments: str) -> Child:
    return Child(
        name=command,
        program=(sys.executable, "-m", "service", command, *arguments),
        record=data.record(command),
        log_file=data.log_file(command),
        is_ready=lambda _pid: True,
        stop_signals=((signal.SIGTERM, 5.0),),
        environment=environment,
    )


def _worker(data: DataDir, environment: Mapping[str, str], name: str, device: str) -> Child:
    return Child(
        name=name,
        program=(sys.executable, "-m", "worker", "--device", device),
        record=data.record(name),
        log_file=data.log_file(name),
        is_ready=lambda _pid: True,
        # At SIGTERM a worker would let its job end first, at SIGINT it gives it back at once.
        stop_signals=((signal.SIGINT, 5.0),),
        environment=environment,
        may_fail=True,
    )


def _api(data: DataDir, environment: Mapping[str, str], listener: socket.socket) -> Child:
    return Child(
        name="api",
        program=(sys.executable, "-m", "service", "serve", "--fd", str(listener.fileno())),
        record=data.record("api"),
        log_file=data.log_file("api"),
        is_ready=partial(_answers, url_of(listener)),
        stop_signals=((signal.SIGTERM, 5.0),),
        environment=environment,
        # The supervisor keeps the socket: while the API restarts, clients wait instead of being refused.
        pass_fds=(listener.fileno(),),
    )


def _answers(url: str, _pid: int) -> bool:
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

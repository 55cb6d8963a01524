"""Run the HTTP API against DATABASE_URL and REDIS_URL."""

import argparse
import os
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import NoReturn

import uvicorn
from litestar.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from service.app import create_app
from service.base.errors import UnavailableError
from service.base.startup_errors import StartupError
from service.cli.gc_tuning import shorten_pauses
from service.cli.serving.bounds import KEEP_ALIVE_S, Bounds, fit_connections
from service.cli.serving.connection import BoundedConnection
from service.cli.serving.listen import add_access, inherit_socket, listen, resolve_access
from service.cli.serving.tls import add_tls, check_tls, make_context
from service.db.session import make_engine, make_sessions
from service.runtime.logs import configure
from service.runtime.settings import Settings
from service.telemetry.spans import is_tracing_enabled, start
from service.terminal.arguments import ERROR, parse_count, parse_positive
from service.usecases.access.keys import is_any_usable

# Event streams never end by themselves; their clients reconnect and go on where they were.
_SHUTDOWN_TIMEOUT_S = 2
_WORKER_SILENCE_S = 30
"""How long a worker may be silent before uvicorn replaces it.

It is silent while it loads its modules: after uvicorn's 5 s, on a host that is busy elsewhere,
workers are replaced before they ever serve. One that hangs later is its platform's to find.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the address and the number of processes."""
    parser.add_argument("--host", help="address to listen on (default HEADROOM_HOST or 127.0.0.1)")
    parser.add_argument(
        "--port",
        type=parse_count,
        help="port to listen on (default HEADROOM_PORT or 8000; 0 takes a free one)",
    )
    add_access(parser)
    add_tls(parser)
    parser.add_argument(
        "--only-hooks",
        action="store_true",
        help="serve the schedulers' hooks, the probes of health and the metrics alone (default "
        "HEADROOM_ONLY_HOOKS): for a port that schedulers reach without a key",
    )
    parser.add_argument(
        "--workers",
        type=parse_positive,
        default=1,
        help="processes; one per core is right (default 1)",
    )
    parser.add_argument("--fd", type=parse_count, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    settings = Settings.from_env(os.environ)
    is_tracing_enabled(os.environ)  # What cannot be is refused here, before any process is started.
    access = settings.access if options.fd is not None else None
    access = access or resolve_access(
        options.host or settings.host, requested=options.access or settings.access
    )
    check_tls(options.tls_cert, options.tls_key)
    _check_usable_key(access, settings)
    # Each of uvicorn's processes reads its settings for itself.
    os.environ["HEADROOM_ACCESS"] = access
    if options.only_hooks:
        os.environ["HEADROOM_ONLY_HOOKS"] = "true"
    with _open_listener(options, settings) as listener:
        config = _build_config(options, settings)
        if options.workers > 1:
            with _share_metrics_dir(settings):
                Multiprocess(config, sockets=[listener]).run()
            return 0
        # When it has stopped, uvicorn raises the signal again, and a service that was told to end
        # has not failed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _exit)
        server = uvicorn.Server(config)
        server.run(sockets=[listener])
        return 0 if server.started else ERROR


def _check_usable_key(access: str, settings: Settings) -> None:
    """Refuse to serve key holders while there is no key.

    A database that is away lets nobody in by itself.
    """
    database_url = settings.require_database_url()
    if access != "keys" or settings.oidc_issuer is not None:
        return
    engine = make_engine(database_url, application_name="headroom-start")
    try:
        if is_any_usable(make_sessions(engine)):
            return
    except UnavailableError:
        return
    finally:
        engine.dispose()
    message = (
        "only holders of keys are let in here, and there is no key: make one with `headroom keys "
        "create NAME --scopes admin` (with DATABASE_URL set, or through a server on 127.0.0.1), or "
        "say --access open if anybody may do anything"
    )
    raise StartupError(message)


@contextmanager
def _share_metrics_dir(settings: Settings) -> Iterator[None]:
    """Share a metrics directory between the processes.

    It is removed when all have ended.
    """
    if settings.metrics_dir is not None:
        yield
        return
    with tempfile.TemporaryDirectory(prefix="headroom-metrics-") as path:
        # The library reads it when it is imported, which each process does for itself.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = path
        yield


def _exit(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def application() -> ASGIApp:
    """Build the application in the process that serves it.

    Each of several processes does this for itself.
    """
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    start("headroom-api")
    app = create_app(settings)
    shorten_pauses()
    return app


def _open_listener(options: argparse.Namespace, settings: Settings) -> socket.socket:
    if options.fd is not None:
        return inherit_socket(options.fd)
    return listen(
        options.host or settings.host, settings.port if options.port is None else options.port
    )


def _build_config(options: argparse.Namespace, settings: Settings) -> uvicorn.Config:
    bounds = Bounds(
        connections=fit_connections(settings.max_connections),
        head_s=settings.header_timeout_s,
        body_s=settings.body_timeout_s,
    )
    return uvicorn.Config(
        "service.cli.commands.serve:application",
        factory=True,
        workers=options.workers,
        loop="uvloop",
        http=partial(BoundedConnection, bounds=bounds),  # type: ignore[arg-type]  # uvicorn calls it as it does a class
        ws="none",
        # Measured: the access log costs a third of the requests per second.
        access_log=False,
        log_config=None,
        server_header=False,
        # A client could otherwise write its own address into X-Forwarded-For.
        proxy_headers=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S,
        timeout_worker_healthcheck=_WORKER_SILENCE_S,
        ssl_certfile=options.tls_cert,
        ssl_keyfile=options.tls_key,
        ssl_context_factory=None if options.tls_cert is None else make_context,
    )

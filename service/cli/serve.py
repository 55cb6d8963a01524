"""Run the HTTP API against DATABASE_URL and REDIS_URL."""

import argparse
import os
import signal
import socket
from types import FrameType
from typing import NoReturn

import uvicorn
from litestar.types import ASGIApp
from uvicorn.supervisors import Multiprocess

from service.app import create_app
from service.cli.listen import inherited, listen
from service.cli.parser import ERROR, whole_number
from service.logs import configure
from service.settings import Settings

# Event streams never end by themselves; their clients reconnect and go on where they were.
_PATIENCE_S = 2


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Take the address and the number of processes."""
    parser.add_argument("--host", help="address to listen on (default HEADROOM_HOST or 127.0.0.1)")
    parser.add_argument(
        "--port", type=whole_number, help="port to listen on (default HEADROOM_PORT or 8000; 0 takes a free one)"
    )
    parser.add_argument("--workers", type=whole_number, default=1, help="processes; one per core is right (default 1)")
    parser.add_argument("--fd", type=whole_number, help=argparse.SUPPRESS)


def run(options: argparse.Namespace) -> int:
    """Serve until SIGINT or SIGTERM."""
    settings = Settings.from_env(os.environ)
    settings.require_database_url()
    with _listener(options, settings) as listener:
        config = _config(options.workers)
        if options.workers > 1:
            Multiprocess(config, sockets=[listener]).run()
            return 0
        # When it has stopped, uvicorn raises the signal again, and a service that was told to end has not failed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, _leave)
        server = uvicorn.Server(config)
        server.run(sockets=[listener])
        return 0 if server.started else ERROR


def _leave(_number: int, _frame: FrameType | None) -> NoReturn:
    raise SystemExit(0)


def application() -> ASGIApp:
    """Build the application in the process that serves it; each of several processes does this for itself."""
    settings = Settings.from_env(os.environ)
    configure(level=settings.log_level, log_format=settings.log_format)
    return create_app(settings)


def _listener(options: argparse.Namespace, settings: Settings) -> socket.socket:
    if options.fd is not None:
        return inherited(options.fd)
    return listen(options.host or settings.host, settings.port if options.port is None else options.port)


def _config(workers: int) -> uvicorn.Config:
    return uvicorn.Config(
        "service.cli.serve:application",
        factory=True,
        workers=max(1, workers),
        loop="uvloop",
        http="httptools",
        ws="none",
        # Measured: the access log costs a third of the requests per second.
        access_log=False,
        log_config=None,
        server_header=False,
        # A client could otherwise write its own address into X-Forwarded-For.
        proxy_headers=False,
        timeout_graceful_shutdown=_PATIENCE_S,
    )

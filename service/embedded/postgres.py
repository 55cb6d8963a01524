"""Private Postgres server without TCP.

Only its owner reaches its socket, and its data survives a crash at any moment.
"""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from urllib.parse import quote

from service.base.startup_errors import EmbeddedServerError
from service.embedded.account import find_named_user, grant_traversal, revoke_traversal
from service.embedded.binaries import find_postgres
from service.embedded.children import Child, keep_running
from service.embedded.datadir import DataDir, own_data_dir
from service.embedded.events import NULL_LOG, Log
from service.embedded.identity import identify, read_record
from service.embedded.postgres_failures import advise

NAME = "headroom"
"""Of the database and of its superuser."""
_STATUS_LINE = 7
_ENVIRONMENT = {"PATH": os.defpath, "LC_ALL": "C"}
# "Fast" disconnects clients and writes a checkpoint; "immediate" leaves recovery to the next start
# (pg_ctl(1)).
_FAST, _IMMEDIATE = (signal.SIGINT, 30.0), (signal.SIGQUIT, 5.0)


def make_postgres_child(data: DataDir, log: Log, *, durable: bool = True) -> Child:
    """Describe the server, creating its database if there is none.

    ``durable=False`` is for data that nobody will miss.
    """
    programs = find_postgres(data.postgres)
    if data.user is not None:
        grant_traversal(programs, data.user, log)
    if not (data.postgres / "PG_VERSION").exists():
        _create(data, programs, log)
    return Child(
        name="postgres",
        program=(
            str(programs / "postgres"),
            "-D",
            str(data.postgres),
            *_build_options(data, durable=durable),
        ),
        record=data.record("postgres"),
        log_file=data.log_file("postgres"),
        is_ready=partial(_is_ready, data.postgres),
        ready_within_s=120.0,
        stop_signals=(_FAST, _IMMEDIATE),
        death_signal=signal.SIGINT,
        user=data.user,
        environment=_ENVIRONMENT,
        before_start=partial(_drop_recycled_lock, data),
        advise=partial(advise, data=data.postgres),
    )


def build_postgres_url(data: DataDir) -> str:
    """Return the URL of the database over its socket."""
    return f"postgresql://{NAME}@/{NAME}?host={quote(str(data.sockets), safe='')}"


@contextmanager
def run_postgres(root: Path, log: Log = NULL_LOG, *, durable: bool = True) -> Iterator[str]:
    """Run a Postgres in ``root`` during a block.

    Yields its URL.
    """
    with (
        own_data_dir(root, log) as data,
        keep_running(make_postgres_child(data, log, durable=durable), log),
    ):
        yield build_postgres_url(data)


def _build_options(data: DataDir, *, durable: bool) -> Sequence[str]:
    settings = {
        "listen_addresses": "",
        # A list to Postgres: quoted, so that nothing in the path parts it.
        "unix_socket_directories": '"{}"'.format(str(data.sockets).replace('"', '""')),
        "unix_socket_permissions": "0700",
        "timezone": "UTC",
        "log_timezone": "UTC",
    }
    if not durable:
        settings |= {"fsync": "off", "full_page_writes": "off", "synchronous_commit": "off"}
    return [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]


def _is_ready(data: Path, pid: int) -> bool:
    """Check postmaster.pid for readiness, as pg_ctl does.

    Line 8 says ``ready`` (miscadmin.h, LOCK_FILE_LINE_PM_STATUS).
    """
    try:
        lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return False
    return (
        len(lines) > _STATUS_LINE
        and int(lines[0]) == pid
        and lines[_STATUS_LINE].strip() == "ready"
    )


def _create(data: DataDir, programs: Path, log: Log) -> None:
    """Build the cluster and move it in place.

    It is built in a draft directory, so that a crash leaves all of it or nothing.
    """
    draft = data.root / "postgres.new"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    creator = find_named_user() if data.user is not None else None
    granted = (
        []
        if creator is None
        else [*grant_traversal(data.root, creator, log), *grant_traversal(programs, creator, log)]
    )
    try:
        if creator is not None:
            os.chown(draft, creator, creator)
        _initialize(draft, programs, creator)
    finally:
        revoke_traversal(reversed(granted), log)
    if data.user is not None:
        for path in (draft, *draft.rglob("*")):
            os.chown(path, data.user, data.user, follow_symlinks=False)
    draft.rename(data.postgres)
    log.info("embedded.database_created", directory=str(data.postgres))


def _initialize(draft: Path, programs: Path, creator: int | None) -> None:
    # Trust, because only the owner of the socket's directory (and root) can reach the socket at
    # all.
    locale = (
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
    )
    _run([programs / "initdb", "-D", draft, "-U", NAME, "--auth=trust", *locale], creator)
    _run(
        [programs / "postgres", "--single", "-D", draft, "postgres"],
        creator,
        f"CREATE DATABASE {NAME};\n",
    )


def _run(command: Sequence[str | Path], user: int | None, text: str = "") -> None:
    answer = subprocess.run(  # noqa: S603 - our own package's programs, no shell
        command,
        user=user,
        group=user,
        extra_groups=None if user is None else [],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=_ENVIRONMENT,
        cwd="/",
        umask=0o077,
    )
    # Single-user mode ends with 0 even when its statement failed, and says so on stderr alone.
    if answer.returncode != 0 or "ERROR:" in answer.stderr:
        place = Path(command[command.index("-D") + 1]).parent
        advice = advise(answer.stderr, place)
        message = (
            f"{'' if advice is None else advice + '; '}{Path(command[0]).name} failed with exit "
            f"code {answer.returncode}: {answer.stderr.strip()}"
        )
        raise EmbeddedServerError(message)


def _drop_recycled_lock(data: DataDir) -> None:
    """Remove postmaster.pid when its id is another program's.

    Postgres would take that one for a postmaster.
    """
    lock = data.postgres / "postmaster.pid"
    last = read_record(data.record("postgres"))
    if last is None or not lock.exists():
        return
    pid = int(lock.read_text(encoding="utf-8").split(maxsplit=1)[0])
    now = identify(pid)
    if pid == last.pid and now is not None and now != last:
        lock.unlink()

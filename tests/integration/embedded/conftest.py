"""Directories and owners for tests that start servers themselves."""

import os
import pwd
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import psycopg
import pytest

from service.embedded.account import grant_traversal, revoke_traversal
from service.embedded.events import NULL_LOG
from tests.running.database_template import copying_first
from tests.running.folders import make_folder

_OWNER = """
import signal, sys
from pathlib import Path
from service.embedded.{server} import run_{server}
# Whoever starts the tests in the background of a shell hands down that SIGINT is ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with run_{server}(Path(sys.argv[1])) as url:
    print(url, flush=True)
    signal.pause()
"""
_REPOSITORY = Path(__file__).parents[3]

Owner = Callable[..., tuple[subprocess.Popen[str], str]]
"""Starts a program that runs one server and waits; returns it and the server's URL."""


@pytest.fixture
def short_dir() -> Iterator[Path]:
    """Return an empty directory whose path leaves room for a socket."""
    with make_folder() as path:
        yield path


@pytest.fixture(scope="session")
def first_database() -> Iterator[Path]:
    """Return where the first database of a run is kept."""
    with make_folder() as path:
        yield path


@pytest.fixture
def copied(first_database: Path) -> Iterator[None]:
    """Have new databases be copies, for tests of what comes after."""
    with copying_first(first_database):
        yield


@pytest.fixture
def owner() -> Iterator[Owner]:
    """Return a starter of programs that own a server; what still runs at the end is killed."""
    with ExitStack() as stack:

        def start(
            server: str, root: Path, user: int | None = None
        ) -> tuple[subprocess.Popen[str], str]:
            process = subprocess.Popen(
                [sys.executable, "-c", _OWNER.format(server=server), str(root)],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                cwd=_REPOSITORY,
                user=user,
                group=user,
                extra_groups=None if user is None else [],
                # A program that does not run as root must not look for root's home.
                env={**os.environ, "HOME": str(root)},
            )
            stack.callback(_end, process)
            assert process.stdout is not None
            return process, process.stdout.readline().strip()

        yield start


@pytest.fixture
def ordinary_user(short_dir: Path) -> Iterator[int | None]:
    """Return an unprivileged user who may use ``short_dir`` and this Python; None when that is who
    runs the tests.
    """
    if os.geteuid() != 0:
        yield None
        return
    user = pwd.getpwnam("nobody").pw_uid
    os.chown(short_dir, user, user)
    needed = [Path(sys.executable), Path(os.__file__), _REPOSITORY / "service"]
    opened = [directory for path in needed for directory in grant_traversal(path, user, NULL_LOG)]
    yield user
    revoke_traversal(reversed(opened), NULL_LOG)


def _end(process: subprocess.Popen[str]) -> None:
    # As Ctrl-C would: the program stops its server before it ends.
    process.send_signal(signal.SIGINT)
    process.communicate()


def find_postmaster(root: Path) -> psutil.Process:
    """Return the server of a directory."""
    return psutil.Process(int((root / "postgres" / "postmaster.pid").read_text().split()[0]))


def query(url: str, question: str) -> object:
    """Return the first value of a query."""
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row else None

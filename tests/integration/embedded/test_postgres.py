"""The embedded Postgres: private, durable, and never without an owner."""

import os
import signal
from pathlib import Path

import psutil
import psycopg
import pytest

from service.base.startup_errors import EmbeddedServerError
from service.embedded.account import SERVER_USER
from service.embedded.datadir import MAX_SOCKET_PATH
from service.embedded.identity import (
    ProcessIdentity,
    get_own_identity,
    identify,
    read_record,
    write_record,
)
from service.embedded.postgres import run_postgres
from tests.integration.embedded.conftest import Owner
from tests.waiting import eventually


def _postmaster(root: Path) -> psutil.Process:
    return psutil.Process(int((root / "postgres" / "postmaster.pid").read_text().split()[0]))


def _answer(url: str, question: str) -> object:
    with psycopg.connect(url) as connection:
        row = connection.execute(question).fetchone()
        return row[0] if row else None


def test_answers_with_its_own_database(short_dir: Path) -> None:
    """A new directory becomes a server with a database that knows all of Unicode."""
    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT current_database()") == "headroom"
        assert _answer(url, "SELECT upper('ä')") == "Ä"


def test_listens_on_its_socket_only(short_dir: Path) -> None:
    """No port is open, and nobody else may enter the socket's directory."""
    with run_postgres(short_dir):
        connections = _postmaster(short_dir).net_connections(kind="inet")

        assert connections == []
        assert (short_dir / "sockets").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to drop")
def test_root_drops_to_a_user_of_its_own(short_dir: Path) -> None:
    """Started by root, the server runs as an id that owns nothing but its data."""
    with run_postgres(short_dir):
        process = _postmaster(short_dir)

        assert set(process.uids()) == {SERVER_USER}
        assert set(process.gids()) == {SERVER_USER}
        assert (
            Path(f"/proc/{process.pid}/status")
            .read_text()
            .partition("Groups:")[2]
            .splitlines()[0]
            .strip()
            == ""
        )
        assert (short_dir / "postgres").stat().st_uid == SERVER_USER


def test_runs_for_an_ordinary_user(
    short_dir: Path, owner: Owner, ordinary_user: int | None
) -> None:
    """Without root the server runs as whoever started it."""
    owner("postgres", short_dir, ordinary_user)

    expected = os.geteuid() if ordinary_user is None else ordinary_user
    assert _postmaster(short_dir).uids().effective == expected


def test_data_survive_a_restart(short_dir: Path) -> None:
    """What was committed is there after a stop and a start."""
    with run_postgres(short_dir) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT answer FROM kept") == 42


def test_data_survive_a_killed_server(short_dir: Path) -> None:
    """After kill -9 of the server the next start recovers what was committed."""
    with run_postgres(short_dir) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        server = _postmaster(short_dir)
        children = server.children()
        server.kill()
        psutil.wait_procs(children, timeout=20)

    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT answer FROM kept") == 42


def test_dies_with_its_owner(short_dir: Path, owner: Owner) -> None:
    """After kill -9 of the owner the server ends by itself, and the directory can be used again."""
    program, _ = owner("postgres", short_dir)
    server = _postmaster(short_dir)
    program.kill()

    server.wait(timeout=20)
    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT 1") == 1


def test_a_second_owner_is_refused(short_dir: Path) -> None:
    """Two owners of one directory: the second is told who the first is."""
    with (
        run_postgres(short_dir),
        pytest.raises(EmbeddedServerError, match=rf"in use .*process {os.getpid()}"),
    ):
        run_postgres(short_dir).__enter__()


def test_two_directories_stand_side_by_side(short_dir: Path) -> None:
    """Two servers in two directories know nothing of each other."""
    with run_postgres(short_dir / "a") as first, run_postgres(short_dir / "b") as second:
        with psycopg.connect(first) as connection:
            connection.execute("CREATE TABLE mine ()")

        assert _answer(first, "SELECT to_regclass('mine')") == "mine"
        assert _answer(second, "SELECT to_regclass('mine')") is None


@pytest.mark.parametrize("name", ["d" * MAX_SOCKET_PATH, "one, two", 'a "b" c\'d %20 ü'])
def test_any_directory_will_do(short_dir: Path, name: str) -> None:
    """Paths that no socket or no URL can take as they are work all the same."""
    with run_postgres(short_dir / name) as url:
        assert _answer(url, "SELECT 1") == 1


def test_a_server_that_an_owner_left_is_ended(short_dir: Path, owner: Owner) -> None:
    """A server that outlived its owner is recognised by its record and stopped before the next one
    starts.
    """
    program, _ = owner("postgres", short_dir)
    left = _postmaster(short_dir)
    # Stopped, the server cannot follow its owner: this is how one is left behind.
    left.send_signal(signal.SIGSTOP)
    program.kill()
    program.wait()
    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT 1") == 1

    eventually(lambda: not left.is_running() or left.status() == psutil.STATUS_ZOMBIE)


def test_a_recycled_process_id_is_no_postmaster(short_dir: Path) -> None:
    """A stale lock whose process id is now another program's does not keep the server from
    starting.
    """
    with run_postgres(short_dir):
        record = read_record(short_dir / "records" / "postgres.json")
        assert record is not None
    ours = get_own_identity()
    (short_dir / "postgres" / "postmaster.pid").write_text(f"{os.getppid()}\n")
    parent = identify(os.getppid())
    assert parent is not None
    write_record(
        short_dir / "records" / "postgres.json",
        ProcessIdentity(pid=parent.pid, start_ticks=parent.start_ticks - 1, boot_id=ours.boot_id),
    )

    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT 1") == 1


def test_an_unfinished_creation_leaves_nothing(short_dir: Path) -> None:
    """A crash while the database is created is followed by a creation from the start."""
    with run_postgres(short_dir):
        pass
    (short_dir / "postgres").rename(short_dir / "postgres.new")
    (short_dir / "postgres.new" / "PG_VERSION").unlink()

    with run_postgres(short_dir) as url:
        assert _answer(url, "SELECT 1") == 1


def test_data_of_another_release_are_refused(short_dir: Path) -> None:
    """Data of a Postgres that is not installed are refused in words and left as they are."""
    with run_postgres(short_dir):
        pass
    version = short_dir / "postgres" / "PG_VERSION"
    version.write_text("11\n")

    with pytest.raises(EmbeddedServerError, match="written by Postgres 11"):
        run_postgres(short_dir).__enter__()
    assert version.read_text() == "11\n"


def test_damaged_files_are_told_with_what_to_do(short_dir: Path) -> None:
    """The files stay as they are, and the way back is a backup."""
    with run_postgres(short_dir):
        pass
    control = short_dir / "postgres" / "global" / "pg_control"
    whole = control.read_bytes()
    control.write_bytes(b"")

    with (
        pytest.raises(EmbeddedServerError, match=r"is damaged.*headroom restore FILE"),
        run_postgres(short_dir),
    ):
        pass
    control.write_bytes(whole)
    (short_dir / "postgres" / "PG_VERSION").write_text("junk")
    with (
        pytest.raises(EmbeddedServerError, match=r"is damaged.*PG_VERSION holds 'junk'"),
        run_postgres(short_dir),
    ):
        pass

"""What the embedded Postgres stores outlives its ends, and what is damaged stays as it is."""

import os
import signal
from pathlib import Path

import psutil
import psycopg
import pytest

from service.base.startup_errors import EmbeddedServerError
from service.embedded.identity import (
    ProcessIdentity,
    get_own_identity,
    identify,
    read_record,
    write_record,
)
from service.embedded.postgres import run_postgres
from tests.integration.embedded.conftest import Owner, find_postmaster, query
from tests.waiting import eventually

pytestmark = pytest.mark.usefixtures("copied")


def test_data_survive_a_restart(short_dir: Path) -> None:
    """What was committed is there after a stop and a start."""
    with run_postgres(short_dir) as url, psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")

    with run_postgres(short_dir) as url:
        assert query(url, "SELECT answer FROM kept") == 42


def test_data_survive_a_killed_server(short_dir: Path) -> None:
    """After kill -9 of the server the next start recovers what was committed."""
    with run_postgres(short_dir) as url:
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 42 AS answer")
        server = find_postmaster(short_dir)
        children = server.children()
        server.kill()
        psutil.wait_procs(children, timeout=20)

    with run_postgres(short_dir) as url:
        assert query(url, "SELECT answer FROM kept") == 42


def test_dies_with_its_owner(short_dir: Path, owner: Owner) -> None:
    """After kill -9 of the owner the server ends by itself, and the directory can be used again."""
    program, _ = owner("postgres", short_dir)
    server = find_postmaster(short_dir)
    program.kill()

    server.wait(timeout=20)
    with run_postgres(short_dir) as url:
        assert query(url, "SELECT 1") == 1


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

        assert query(first, "SELECT to_regclass('mine')") == "mine"
        assert query(second, "SELECT to_regclass('mine')") is None


def test_a_server_that_an_owner_left_is_ended(short_dir: Path, owner: Owner) -> None:
    """A server that outlived its owner is recognised by its record and stopped before the next one
    starts.
    """
    program, _ = owner("postgres", short_dir)
    left = find_postmaster(short_dir)
    # Stopped, the server cannot follow its owner: this is how one is left behind.
    left.send_signal(signal.SIGSTOP)
    program.kill()
    program.wait()
    with run_postgres(short_dir) as url:
        assert query(url, "SELECT 1") == 1

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
        assert query(url, "SELECT 1") == 1


def test_an_unfinished_creation_leaves_nothing(short_dir: Path) -> None:
    """A crash while the database is created is followed by a creation from the start."""
    with run_postgres(short_dir):
        pass
    (short_dir / "postgres").rename(short_dir / "postgres.new")
    (short_dir / "postgres.new" / "PG_VERSION").unlink()

    with run_postgres(short_dir) as url:
        assert query(url, "SELECT 1") == 1


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

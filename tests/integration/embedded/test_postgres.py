"""The embedded Postgres: created in any directory, private, and run by nobody of importance."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.embedded.account import SERVER_USER
from service.embedded.datadir import MAX_SOCKET_PATH
from service.embedded.postgres import run_postgres
from tests.integration.embedded.conftest import Owner, find_postmaster, query
from tests.running.folders import make_folder


@pytest.fixture(scope="module", name="created")
def _create() -> Iterator[tuple[Path, str]]:
    """Return the directory and the address of one that tests only look at."""
    with make_folder() as path, run_postgres(path) as url:
        yield path, url


def test_answers_with_its_own_database(created: tuple[Path, str]) -> None:
    """A new directory becomes a server with a database that knows all of Unicode."""
    _, url = created

    assert query(url, "SELECT current_database()") == "headroom"
    assert query(url, "SELECT upper('ä')") == "Ä"


def test_listens_on_its_socket_only(created: tuple[Path, str]) -> None:
    """No port is open, and nobody else may enter the socket's directory."""
    path, _ = created

    assert find_postmaster(path).net_connections(kind="inet") == []
    assert (path / "sockets").stat().st_mode & 0o077 == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to drop")
def test_root_drops_to_a_user_of_its_own(created: tuple[Path, str]) -> None:
    """Started by root, the server runs as an id that owns nothing but its data."""
    path, _ = created
    process = find_postmaster(path)

    assert set(process.uids()) == {SERVER_USER}
    assert set(process.gids()) == {SERVER_USER}
    _, _, groups = Path(f"/proc/{process.pid}/status").read_text().partition("Groups:")
    assert groups.splitlines()[0].strip() == ""
    assert (path / "postgres").stat().st_uid == SERVER_USER


def test_runs_for_an_ordinary_user(
    short_dir: Path, owner: Owner, ordinary_user: int | None
) -> None:
    """Without root the server runs as whoever started it."""
    owner("postgres", short_dir, ordinary_user)

    expected = os.geteuid() if ordinary_user is None else ordinary_user
    assert find_postmaster(short_dir).uids().effective == expected


@pytest.mark.parametrize("name", ["d" * MAX_SOCKET_PATH, 'one, "two" c\'d %20 ü'])
def test_any_directory_will_do(short_dir: Path, name: str) -> None:
    """Paths that no socket or no URL can take as they are work all the same."""
    with run_postgres(short_dir / name) as url:
        assert query(url, "SELECT 1") == 1

"""The parts one by one, against a database that somebody else runs."""

import signal
import subprocess

import httpx
import psycopg
import pytest

from service.cli.serving.listen import get_url, listen
from tests.e2e.cli.conftest import environment, headroom
from tests.running.forked import ForkedProgram
from tests.waiting import eventually


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    except httpx.TransportError:
        return False


def test_migrate_builds_the_schema(empty_database_url: str) -> None:
    """An empty database gets this version's schema; a second run finds nothing to do."""
    for _ in range(2):
        process = headroom("migrate", DATABASE_URL=empty_database_url)
        _, told = process.communicate(timeout=60)
        assert process.returncode == 0, told

    with psycopg.connect(empty_database_url) as connection:
        assert connection.execute("SELECT to_regclass('measurements')").fetchone() == (
            "measurements",
        )


def test_serve_answers_and_stops(database_url: str, redis_url: str) -> None:
    """The API ends with code 0 at SIGTERM; of several processes the test of their metrics says
    the same.
    """
    with listen("127.0.0.1", 0) as listener:
        url = get_url(listener)
        process = ForkedProgram(
            "service",
            *("serve", "--fd", str(listener.fileno())),
            env=environment({"DATABASE_URL": database_url, "REDIS_URL": redis_url}),
            pass_fds=(listener.fileno(),),
            stderr=subprocess.PIPE,
            text=True,
        )
    try:
        eventually(lambda: _is_ready(url), within_s=60)
        process.send_signal(signal.SIGTERM)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()

    assert process.returncode == 0, told


@pytest.mark.parametrize("command", ["serve", "reconcile", "worker", "migrate"])
def test_a_part_without_a_database_says_how_to_get_one(command: str) -> None:
    """Each part names the variable that is missing and the command that needs none."""
    process = headroom(command)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 2
    assert "DATABASE_URL is not set" in told
    assert "headroom up" in told


@pytest.mark.usefixtures("sessions")
def test_a_worker_in_burst_mode_leaves_when_nothing_is_queued(database_url: str) -> None:
    """What the command line says reaches the worker that this process becomes."""
    process = headroom("worker", "--burst", DATABASE_URL=database_url)
    _, told = process.communicate(timeout=60)

    assert process.returncode == 0, told


def test_reconcile_runs_until_it_is_told_to_stop(database_url: str) -> None:
    """The loop runs without Redis as well and ends with code 0 at SIGTERM."""
    process = headroom("reconcile", DATABASE_URL=database_url)
    assert process.stderr is not None
    assert "reconcile.started" in process.stderr.readline()
    process.send_signal(signal.SIGTERM)

    assert process.wait(timeout=60) == 0
    process.communicate()

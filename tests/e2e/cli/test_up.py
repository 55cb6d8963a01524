"""``headroom up``: everything starts with one command, mends itself, and leaves nothing behind."""

import contextlib
import os
import signal
import socket
import subprocess
from pathlib import Path

import httpx
import psutil
import pytest

from service.embedded.account import SERVER_USER
from tests.e2e.cli.conftest import Running, Up, headroom
from tests.waiting import eventually

PARTS = {"postgres", "redis", "api", "reconcile", "worker-1", "tracer"}


def _is_ready(url: str) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return httpx.get(f"{url}/readyz", timeout=5).status_code == 200
    return False


def _is_replaced(running: Running, name: str, pid: int) -> bool:
    return running.parts().get(name, pid) != pid


def test_everything_runs_and_everything_stops(up: Up) -> None:
    """It is ready when it says so in one line, and Ctrl-C ends every process with code 0."""
    running = up()
    assert _is_ready(running.url)
    assert set(running.parts()) == PARTS
    below = running.all_below()
    assert set(running.parts().values()) <= {process.pid for process in below}

    running.process.send_signal(signal.SIGINT)
    rest, _ = running.process.communicate(timeout=90)
    assert (running.process.returncode, rest) == (0, "")
    assert psutil.wait_procs(below, timeout=20)[1] == []
    assert list((running.data_dir / "records").iterdir()) == []


def test_data_survive_and_nothing_outlives_a_kill(up: Up) -> None:
    """After kill -9 all processes end by themselves, and the next start has what was stored."""
    first = up("--workers", "0")
    pool = {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "num_nodes": 2}
    stored = httpx.post(
        f"{first.url}/v1/clusters", json={"name": "prod-a", "pools": [pool]}, timeout=20
    )
    assert stored.status_code == 201, stored.text
    below = first.all_below()
    first.stop(signal.SIGKILL)
    assert psutil.wait_procs(below, timeout=30)[1] == []

    second = up("--workers", "0")
    assert (
        httpx.get(f"{second.url}/v1/clusters/prod-a", timeout=20).json()["pools"][0]["num_nodes"]
        == 2
    )


@pytest.mark.parametrize("name", ["api", "reconcile", "worker-1", "redis", "postgres"])
def test_a_killed_part_comes_back(whole: Running, name: str) -> None:
    """Each part is restarted after kill -9, and the service is ready again at the same address."""
    pid = whole.parts()[name]
    os.kill(pid, signal.SIGKILL)

    eventually(lambda: _is_replaced(whole, name, pid), within_s=60)
    eventually(lambda: _is_ready(whole.url), within_s=60)
    eventually(lambda: set(whole.parts()) == PARTS, within_s=60)


def test_a_second_one_on_the_same_directory_is_refused(whole: Running) -> None:
    """Two cannot share a directory; the second says who holds it and leaves it alone."""
    second = headroom("up", "--port", "0", "--data-dir", str(whole.data_dir))
    _, told = second.communicate(timeout=60)

    assert second.returncode == 2
    assert f"process {whole.process.pid}" in told
    assert _is_ready(whole.url)


def test_a_port_in_use_is_told_before_anything_starts(short_dir: Path) -> None:
    """Nothing is created when the port is somebody else's."""
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = str(holder.getsockname()[1])
        refused = headroom("up", "--port", port, "--data-dir", str(short_dir / "data"))
        _, told = refused.communicate(timeout=60)

    assert refused.returncode == 2
    assert f"port {port}" in told
    assert not (short_dir / "data").exists()


def test_without_torch_it_starts_and_says_so(up: Up) -> None:
    """Without the worker extra everything else runs, and the log says that measurements wait."""
    running = up(program="tests.e2e.cli.without_torch")
    assert _is_ready(running.url)
    assert "worker-1" not in running.parts()

    running.process.send_signal(signal.SIGINT)
    _, told = running.process.communicate(timeout=60)
    assert "measurements wait for a worker" in told


def test_an_interrupted_start_leaves_nothing(short_dir: Path) -> None:
    """Ctrl-C before it is ready ends what was started so far."""
    process = headroom("up", "--port", "0", "--data-dir", str(short_dir / "data"))
    server = short_dir / "data" / "postgres" / "postmaster.pid"
    eventually(server.exists, within_s=60)
    below = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(signal.SIGINT)

    assert process.wait(timeout=60) == 0
    process.communicate()
    assert psutil.wait_procs(below, timeout=20)[1] == []
    assert not server.exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has something to drop")
def test_servers_run_without_privileges(whole: Running) -> None:
    """Started by root, both servers run as a user of their own."""
    parts = whole.parts()

    assert {psutil.Process(parts[name]).uids().effective for name in ("postgres", "redis")} == {
        SERVER_USER
    }


def test_a_program_that_ends_badly_is_told_with_its_last_words(short_dir: Path) -> None:
    """When a part cannot start, its own error is on the terminal and the exit code is 2."""
    process = headroom(
        "up",
        "--port",
        "0",
        "--data-dir",
        str(short_dir / "data"),
        DATABASE_URL="postgresql://u@127.0.0.1:1/x",
    )
    try:
        _, told = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise

    assert process.returncode == 2
    assert "migrate ended with exit code" in told
    assert "127.0.0.1" in told

"""One server of several processes, as a scraper sees it."""

import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.promtool import promtool
from tests.system import build_environment
from tests.waiting import eventually

FIT = {"model": "llama-2-7b", "workload": {"task": "train", "sequence_length": 64}, "gpu": "H200"}
NUM_FITS = 24


@pytest.fixture
def url(database_url: str, redis_url: str, tmp_path: Path) -> Iterator[str]:
    """Return the address of an API of two processes, which keeps its counts under ``tmp_path``."""
    environment = {
        **build_environment(database_url),
        "REDIS_URL": redis_url,
        "TMPDIR": str(tmp_path),
    }
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.set_inheritable(True)
        number = str(listener.fileno())
        command = [sys.executable, "-m", "service", "serve", "--workers", "2", "--fd", number]
        with subprocess.Popen(command, env=environment, pass_fds=(listener.fileno(),)) as server:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            server.terminate()
            assert server.wait(timeout=30) == 0, "it was told to end, and has not failed"
    assert list(tmp_path.glob("headroom-metrics-*")) == [], "the counts outlive their server"


def counting(tmp_path: Path) -> int:
    """Return how many processes have begun to count."""
    return len(list(tmp_path.glob("headroom-metrics-*/counter_*.db")))


def asked(url: str, path: str, **body: object) -> httpx.Response:
    """Ask over a connection of its own, which whichever process is free takes."""
    with httpx.Client(base_url=url, timeout=30.0) as client:
        return client.post(path, json=body) if body else client.get(path)


def value_of(text: str, series: str) -> float:
    """Return the value of one series."""
    found = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    assert found is not None, series
    return float(found[1])


def test_every_process_tells_of_all(url: str, tmp_path: Path) -> None:
    """Whichever process answers, counters are those of both, never go back, and what it prints is
    what promtool expects.
    """
    eventually(lambda: asked(url, "/healthz").status_code == 200)
    eventually(lambda: counting(tmp_path) == 2)
    verdict = {asked(url, "/v1/fit", **FIT).json()["verdict"] for _ in range(NUM_FITS)}
    scrapes = [asked(url, "/metrics").text for _ in range(12)]

    (word,) = verdict
    assert {value_of(text, f'headroom_fits_total{{verdict="{word}"}}') for text in scrapes} == {
        NUM_FITS
    }
    # Each process keeps an answer from the second time on that it is asked.
    assert NUM_FITS - 4 <= value_of(scrapes[0], "headroom_cached_fits_total") <= NUM_FITS - 2
    assert value_of(scrapes[0], "headroom_answer_cache_bytes") > 0
    counted = [
        value_of(text, 'headroom_http_request_seconds_count{route="/healthz"}') for text in scrapes
    ]
    assert counted == sorted(counted)
    assert value_of(scrapes[0], 'headroom_jobs{device="cpu",state="queued"}') == 0
    checked = promtool("check", "metrics", text=scrapes[0])
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")

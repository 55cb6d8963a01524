"""A collector between an exporter and a server that do what they like."""

import json
import os
import signal
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest

from service.__main__ import main
from service.cli.nodes.collector import Collector
from service.formats.measured.detect import parse
from tests.unit.cli.nodes.exporter import HOST, write_line, write_page
from tests.waiting import eventually

START = datetime(2026, 1, 1, tzinfo=UTC)
BUSY = write_page(write_line(500, "ml/tune-x7x2k"))
IDLE = write_page(write_line(4))
STORED = httpx.Response(201, json={"num_stored": 1})


class Bench:
    """A collector with a page and an answer of its own at each step."""

    def __init__(self, folder: Path) -> None:
        """Begin with nothing sent."""
        self.state, self.sent, self.steps = folder / "pods.json", list[dict[str, object]](), 0

    def step(self, page: httpx.Response | str, answer: httpx.Response = STORED) -> None:
        """Look once, a minute after the last time."""

        def serve(request: httpx.Request) -> httpx.Response:
            self.sent.append(json.loads(request.content))
            return answer

        shown = httpx.Response(200, text=page) if isinstance(page, str) else page
        with (
            httpx.Client(transport=httpx.MockTransport(serve), base_url="http://server") as client,
            httpx.Client(transport=httpx.MockTransport(lambda _request: shown)) as pages,
        ):
            collector = Collector(
                client=client,
                pages=pages,
                exporter="http://exporter/metrics",
                node=HOST,
                state=self.state,
                patience=timedelta(minutes=1),
                releases={},
            )
            collector.step(START + self.steps * timedelta(minutes=1))
        self.steps += 1

    def count_sent(self, *pages: httpx.Response | str) -> int:
        """Return how much was sent after these pages."""
        for page in pages:
            self.step(page)
        return len(self.sent)


def test_a_pod_is_told_of_once(tmp_path: Path) -> None:
    """With its name, when it began, and a report that the server reads."""
    bench = Bench(tmp_path)

    assert bench.count_sent(BUSY, BUSY, IDLE, IDLE) == 1
    [body] = bench.sent
    assert body["pod"] == {"namespace": "ml", "name": "tune-x7x2k", "seen_at": START.isoformat()}
    assert (body["format"], body["dry_run"]) == ("node", False)
    [reading] = parse(str(body["content"]).encode()).readings
    assert (reading.value, reading.place.host) == (500 << 20, HOST)
    assert reading.place.job == "ml/tune-x7x2k"


@pytest.mark.parametrize(
    ("status", "num_sent"), [(404, 1), (422, 1), (401, 2), (429, 2), (500, 2), (503, 2)]
)
def test_what_a_server_refuses_for_now_is_sent_again(
    tmp_path: Path, status: int, num_sent: int
) -> None:
    """A pod that it does not know is not: nobody asked about it."""
    bench = Bench(tmp_path)
    bench.count_sent(BUSY, BUSY)

    bench.step(IDLE, httpx.Response(status, json={"detail": "no"}))
    bench.step(IDLE)

    assert len(bench.sent) == num_sent


UNREAD: Sequence[httpx.Response | str] = (
    httpx.Response(503),
    "",
    "DCGM_FI_DEV_FB_USED{ 1\n",
    write_page(write_line(4, host="gpu-node-2")),
)


@pytest.mark.parametrize("page", UNREAD)
def test_a_page_that_cannot_be_read_ends_no_pod(tmp_path: Path, page: httpx.Response | str) -> None:
    """Nor does one of another node."""
    bench = Bench(tmp_path)

    assert bench.count_sent(BUSY, page, page, BUSY) == 0
    assert bench.count_sent(IDLE) == 1


def test_a_broken_state_is_left_behind(tmp_path: Path) -> None:
    """What ran is lost, and what runs is seen."""
    bench = Bench(tmp_path)
    bench.state.write_text('{"running": 1}')

    assert bench.count_sent(BUSY, BUSY, IDLE) == 1


def test_what_cannot_be_sent_holds_up_no_other(tmp_path: Path) -> None:
    """An answer that is none of the service's, and the next pod's turn."""
    bench = Bench(tmp_path)
    both = BUSY + write_line(300, "ml/tune-b2b2b", gpu=1) + "\n"
    bench.count_sent(both, both)

    bench.step(IDLE, httpx.Response(200, text="<html>"))
    bench.step(IDLE)

    names = [body["pod"]["name"] for body in bench.sent]  # type: ignore[index]  # a JSON object
    assert names == ["tune-x7x2k", "tune-b2b2b", "tune-x7x2k"]


def test_a_release_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """With those that are."""
    code = main(["collect", "--exporter", "http://127.0.0.1:1", "--release", "vllm=1"])

    assert code == 2
    assert "expected NAME=VERSION such as torch=2.13.0" in capsys.readouterr().err


def test_it_waits_for_an_exporter_that_is_away_and_ends_on_a_signal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """SIGTERM ends it in order."""
    monkeypatch.setenv("HEADROOM_LOG_FORMAT", "json")
    monkeypatch.chdir(tmp_path)
    lines: list[str] = []

    def stop_when_it_waits() -> None:
        def waits() -> bool:
            lines.append(capsys.readouterr().err)
            return "collect.no_page" in "".join(lines)

        eventually(waits)
        os.kill(os.getpid(), signal.SIGTERM)

    watcher = threading.Thread(target=stop_when_it_waits)
    watcher.start()
    code = main(["collect", "--exporter", "http://127.0.0.1:1/metrics"])
    watcher.join()

    assert code == 0

"""The wrapper of jobs that no node tells of: it runs them, and sends what they left."""

import base64
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from service.formats.measured.detect import parse
from service.formats.measured.reading import Quantity
from tests.waiting import eventually

WRAPPER = Path(__file__).resolve().parents[3] / "deploy" / "jobs" / "headroom_report.py"
RANK = {
    "rank": 0,
    "world_size": 1,
    "gpu": "NVIDIA A100-SXM4-80GB",
    "torch": "2.13.0",
    "memory_stats": {"allocated_bytes.all.peak": 2**30, "reserved_bytes.all.peak": 2**31},
}
LEAVE = (
    "import os, pathlib;"
    f"pathlib.Path(os.environ['HEADROOM_STATS'], 'rank-0.json').write_text({json.dumps(RANK)!r})"
)
DIGEST = "9a0364b9e99bb480dd25e1f0284c8555"


@contextmanager
def serving(
    status: int = 201, answer: bytes = b'{"left_out": []}'
) -> Iterator[tuple[str, list[tuple[dict[str, str], Any]]]]:
    """Serve an API that answers with a status; yield its address and what it got."""
    sent: list[tuple[dict[str, str], Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent.append(({"path": self.path, **dict(self.headers)}, json.loads(body)))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
            """Log nothing."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", sent
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def run(*command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command through the wrapper."""
    return subprocess.run(
        [sys.executable, str(WRAPPER), *command],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_what_a_job_left_is_sent_with_its_question() -> None:
    """As a node's report, by a key; the job's code is the wrapper's."""
    with serving() as (url, sent):
        ended = run(
            sys.executable,
            "-c",
            f"{LEAVE}; raise SystemExit(7)",
            HEADROOM_URL=f"{url}/",
            HEADROOM_QUESTION_DIGEST=DIGEST,
            HEADROOM_API_KEY="hr_1",
        )

    [(headers, body)] = sent
    parsed = parse(base64.b64decode(body["content_base64"]), declared=None)
    assert (ended.returncode, ended.stderr) == (7, "")
    assert headers["path"] == "/v1/measurements/import"
    assert headers["Authorization"] == "Bearer hr_1"
    assert (body["question"], body["dry_run"]) == (DIGEST, False)
    assert {reading.quantity for reading in parsed.readings} == {
        Quantity.ALLOCATED,
        Quantity.RESERVED,
    }


@pytest.mark.parametrize(
    ("variables", "code"),
    [
        ({}, "import os; raise SystemExit('HEADROOM_STATS' in os.environ)"),
        ({"HEADROOM_QUESTION_DIGEST": "no digest"}, "pass"),
        ({"HEADROOM_QUESTION_DIGEST": DIGEST, "HEADROOM_URL": "ftp://h"}, "pass"),
        ({"HEADROOM_QUESTION_DIGEST": DIGEST, "HEADROOM_URL": "http://127.0.0.1:1"}, "pass"),
    ],
    ids=["nothing said", "no digest", "no address", "nothing left"],
)
def test_a_job_runs_alone_where_there_is_nothing_to_send(
    variables: dict[str, str], code: str
) -> None:
    """Without a word."""
    ended = run(sys.executable, "-c", code, **variables)

    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(("is_there", "code"), [(False, 127), (True, 126)])
def test_a_command_that_cannot_be_started_has_the_code_of_a_shell(
    tmp_path: Path, *, is_there: bool, code: int
) -> None:
    """And a line that says why, as without the wrapper; nothing is sent."""
    program = tmp_path / "train"
    if is_there:
        program.write_text("not to be run")
    with serving() as (url, sent):
        done = run(str(program), HEADROOM_QUESTION_DIGEST=DIGEST, HEADROOM_URL=url)

    assert (done.returncode, sent) == (code, [])
    assert re.fullmatch(rf"headroom_report: {program}: [^\n]+\n", done.stderr)


def test_a_refusal_is_told_and_changes_nothing() -> None:
    """In the server's words."""
    with serving(404, b"no question of this digest") as (url, _):
        ended = run(sys.executable, "-c", LEAVE, HEADROOM_URL=url, HEADROOM_QUESTION_DIGEST=DIGEST)

    assert ended.returncode == 0
    assert "was not sent: 404 no question of this digest" in ended.stderr


def test_what_was_left_out_is_told() -> None:
    """Such as a part of a job's ranks, which does not speak for the neediest."""
    reason = "1 of 2 ranks left statistics on this node"
    answer = {"num_stored": 0, "left_out": [{"what": "torch's statistics", "reason": reason}]}
    with serving(answer=json.dumps(answer).encode()) as (url, _):
        ended = run(sys.executable, "-c", LEAVE, HEADROOM_URL=url, HEADROOM_QUESTION_DIGEST=DIGEST)

    assert ended.returncode == 0
    assert ended.stderr == (
        f"headroom: left out of what the job used: torch's statistics: {reason}\n"
    )


def test_signals_reach_the_job(tmp_path: Path) -> None:
    """So that it writes its checkpoint; what it left until then is sent."""
    ready = tmp_path / "ready"
    job = (
        "import pathlib, signal, sys\n"
        "def end(*_):\n"
        f"    {LEAVE.replace('; ', chr(10) + '    ').replace(';', chr(10) + '    ')}\n"
        "    sys.exit(3)\n"
        "signal.signal(signal.SIGTERM, end)\n"
        f"pathlib.Path({str(ready)!r}).touch()\n"
        "signal.pause()\n"
    )
    with serving() as (url, sent):
        process = subprocess.Popen(
            [sys.executable, str(WRAPPER), sys.executable, "-c", job],
            env={**os.environ, "HEADROOM_URL": url, "HEADROOM_QUESTION_DIGEST": DIGEST},
        )
        eventually(ready.exists)
        process.send_signal(signal.SIGTERM)
        code = process.wait(timeout=60)

    assert (code, len(sent)) == (3, 1)

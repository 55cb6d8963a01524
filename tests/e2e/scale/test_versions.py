"""What an older command line asked an older server, and what that answered, beside today's.

``python -m tests.versions WHEEL --write FILE`` kept both.
"""

import gzip
import json
import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from sqlalchemy.orm import Session, sessionmaker

from service.__main__ import main
from tests.unit.api.builders import parts, served
from tests.versions.between import Exchange
from tests.versions.commands import CLUSTER, COMMANDS
from tests.versions.run_commands import read_id

KEPT = sorted((Path(__file__).parents[2] / "data/versions").glob("*.jsonl.gz"))
_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_ERROR = 2


def read_kept(path: Path) -> list[Exchange]:
    """Return the exchanges of a version."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def find_missing(older: Any, newer: Any, place: str) -> Iterator[str]:  # noqa: ANN401 - any JSON
    """Yield what an older answer has and a newer one has not, or in another type."""
    if older is None or newer is None:
        return
    if isinstance(older, dict) and isinstance(newer, dict):
        # Each search counts by reasons of its own.
        for name, value in () if place.endswith(".pruned") else older.items():
            if name not in newer:
                yield f"{place}.{name}"
            else:
                yield from find_missing(value, newer[name], f"{place}.{name}")
    elif isinstance(older, list) and isinstance(newer, list):
        for before, after in zip(older[:1], newer[:1], strict=False):
            yield from find_missing(before, after, f"{place}[]")
    elif _name_type(older) != _name_type(newer):
        yield f"{place} is {newer!r}, was {older!r}"


def _name_type(value: object) -> str:
    return "number" if type(value) in {int, float} else type(value).__name__


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_todays_server_answers_an_older_command_line(
    sessions: sessionmaker[Session], path: Path
) -> None:
    """Every request of it is taken, and every member of the answers is still there."""
    ids: dict[str, str] = {}
    missing: list[str] = []
    with served(replace(parts(), sessions=sessions)) as client:
        for kept in read_kept(path):
            asked = _ID.sub(lambda found: ids.get(found[0], found[0]), kept["path"])
            answer = client.request(
                kept["method"], asked, json=kept["body"], headers={"if-match": "*"}
            )
            place = f"{kept['method']} {kept['path']}"
            if answer.status_code != kept["status"]:
                missing.append(f"{place}: {answer.status_code} {answer.text[:200]}")
                continue
            document = answer.json() if answer.content else {}
            if isinstance(kept["answer"], dict) and "id" in kept["answer"]:
                ids[str(kept["answer"]["id"])] = str(document["id"])
            missing += find_missing(kept["answer"], document, place)

    assert not missing, "\n".join(missing)


def _split_path(path: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    """Return a path and its parameters, whose order means nothing."""
    parts = urlsplit(path)
    return parts.path, tuple(sorted(parse_qsl(parts.query)))


@contextmanager
def playing(exchanges: Sequence[Exchange]) -> Iterator[tuple[str, list[str]]]:
    """Serve recorded answers in turn; yield the address and what was asked otherwise."""
    left = list(exchanges)
    unlike: list[str] = []

    class Player(BaseHTTPRequestHandler):
        """Answers with what was recorded."""

        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Write nothing."""

        def play(self) -> None:
            """Answer with the next record of this path."""
            content = self.rfile.read(int(self.headers.get("content-length", "0")))
            asked = self.command, _split_path(self.path)
            found = next(
                (kept for kept in left if (kept["method"], _split_path(kept["path"])) == asked),
                None,
            )
            if found is None:
                unlike.append(f"{self.command} {self.path} was never asked")
                found = {"status": 404, "headers": {}, "answer": {"detail": "never asked"}}
            else:
                left.remove(found)
                body = json.loads(content) if content else None
                if body != found["body"]:
                    unlike.append(f"{self.command} {self.path}: {body} in place of {found['body']}")
            answer = b"" if found["answer"] is None else json.dumps(found["answer"]).encode()
            self.send_response(found["status"])
            for name, value in found["headers"].items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = play  # noqa: N815 - http.server's names

    with ThreadingHTTPServer(("127.0.0.1", 0), Player) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", unlike
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_todays_command_line_asks_an_older_server(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It asks what the older one did, and shows what it is answered."""
    cluster = tmp_path / "cluster.json"
    cluster.write_text(json.dumps(CLUSTER))
    monkeypatch.setenv("HOME", str(tmp_path))
    failed, made = [], ""
    with playing(read_kept(path)) as (url, unlike):
        monkeypatch.setenv("HEADROOM_URL", url)
        for words in COMMANDS:
            command = [word.format(cluster=cluster, id=made) for word in words]
            code = main(command)
            told = capsys.readouterr()
            made = read_id(told.out) or made
            if code == _ERROR:
                failed.append(f"{' '.join(command)}: {told.err}")

    assert not [*failed, *unlike], "\n".join([*failed, *unlike])

"""The API guide is true: every problem is in it, every request of it is answered as it says, every
command prints its shape.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx

from service.client.headroom import Headroom
from service.client.stored import Until
from tests.e2e.client.conftest import REPOSITORY, list_paths
from tests.e2e.client.problems import Kind, known

GUIDE = (REPOSITORY / "docs" / "api.md").read_text()
SERVER = "http://127.0.0.1:8000"
TOLD_IN_WORDS = {
    *(
        "unauthorized",
        "forbidden",
        "conflict",
        "not-cancellable",
        "not-withdrawable",
        "reservation-ended",
        "body-too-large",
        "cross-site-request",
        "misdirected-request",
    ),
    *(
        "import-refused",
        "model-not-recorded",
        "model-recording",
        "not-modelled",
        "hub-refused",
        "hub-content",
        "hub-unavailable",
        "too-costly",
        "too-many-requests",
        "internal-error",
        "not-migrated",
        "out-of-memory",
        "unavailable",
    ),
}
"""Problems that take more than one request; the others are shown with one, which is sent here."""
_ROW = re.compile(r"^\| `([a-z-]+)` \| (\d{3}) \| ([^|]+) \| (.+) \|$", re.MULTILINE)
_REQUEST = re.compile(r"`(GET|POST|PUT|DELETE) (\S+)(?: \[([^:]+): ([^\]]+)\])?(?: ([{].*))?`")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of the guide and what it is said to print."""

    command: str
    shown: str


def rows() -> dict[Kind, str]:
    """Return the table of problems: every kind, and its example."""
    return {
        Kind(type=slug, status=int(status), title=title): example
        for slug, status, title, example in _ROW.findall(GUIDE)
    }


def blocks() -> Iterator[list[Step]]:
    """Yield the commands of every console block."""
    for block in re.findall(r"```console\n(.*?)```", GUIDE, flags=re.DOTALL):
        parts = (part.partition("\n") for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:])
        yield [Step(command=command, shown=shown.strip()) for command, _, shown in parts]


def is_shaped_like(shown: Any, printed: Any) -> bool:  # noqa: ANN401 - any JSON value
    """Tell whether everything that is shown is there, with a value of its kind, and the very word
    where one is shown.
    """
    match shown:
        case dict():
            return isinstance(printed, dict) and all(
                name in printed and is_shaped_like(value, printed[name])
                for name, value in shown.items()
            )
        case list():
            return (
                isinstance(printed, list)
                and (len(printed) >= len(shown))
                and all(map(is_shaped_like, shown, printed))
            )
        case str() if "…" in shown:
            return isinstance(printed, str) and printed.startswith(shown.partition("…")[0])
        # A number is an example of its kind, unless it is a count that the text speaks of.
        case float():
            return isinstance(printed, float | int)
        case 0 if shown is not False:
            return isinstance(printed, int) and not isinstance(printed, bool)
        case _:
            return type(shown) is type(printed) and shown == printed


def test_every_problem_is_in_the_table() -> None:
    """Type, status and title are the code's, none is missing and none is left over."""
    assert set(rows()) == set(known())


def test_every_request_of_the_table_is_refused_as_it_says(url: str, headroom: Headroom) -> None:
    """Whoever reads of a problem can have it."""
    pools = [{"name": "h200", "gpu": "H200", "gpus_per_node": 8, "num_nodes": 1}]
    headroom.clusters.create({"name": "lab", "pools": pools})
    headroom.reservations("lab").create(
        "me", gpus=[{"pool": "h200", "num_gpus": 1}], until=Until(seconds=3600)
    )
    workload = {"task": "train", "sequence_length": 64}
    headroom.measure(
        {"model": "gpt2", "device": "cpu", "workload": workload}, idempotency_key="used"
    )
    sent = set()
    for kind, example in rows().items():
        if (found := _REQUEST.fullmatch(example)) is None:
            continue
        method, path, name, value, body = found.groups()
        headers = {"content-type": "application/json"} | ({name.lower(): value} if name else {})
        answer = httpx.request(method, url + path, headers=headers, content=body, timeout=30)
        problem = answer.json()
        sent.add(kind.type)

        assert (answer.status_code, problem["type"], problem["title"]) == (
            kind.status,
            kind.type,
            kind.title,
        ), example
        assert answer.headers["content-type"] == "application/problem+json"

    assert {kind.type for kind in known()} - sent == TOLD_IN_WORDS


def test_every_command_prints_what_has_its_shape(url: str) -> None:
    """The commands are run in order, each block in one shell; every member that is shown is there,
    and of its kind.
    """
    wrong: dict[str, str] = {}
    commands = list(blocks())
    for block in commands:
        script = "".join(f"{step.command}\nprintf '\\n\\036\\n'\n" for step in block).replace(
            SERVER, url
        )
        run = subprocess.run(
            ["/bin/bash", "-c", script], capture_output=True, text=True, check=False, timeout=120
        )
        for step, printed in zip(block, run.stdout.split("\x1e\n")[:-1], strict=True):
            if not is_told(step.shown, printed.strip()):
                wrong[step.command] = printed + run.stderr

    assert sum(map(len, commands)) > 20
    assert wrong == {}


def is_told(shown: str, printed: str) -> bool:
    """Tell whether what is printed is what is shown: JSON by its shape, text to the letter but for
    what is left out.
    """
    if shown.startswith("{"):
        return is_shaped_like(json.loads(shown), json.loads(printed or "null"))
    return shown == printed


def test_the_python_of_the_guide_runs(url: str) -> None:
    """The client is used as it is told."""
    (program,) = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.DOTALL)
    environment = {"HEADROOM_URL": url, "PYTHONPATH": list_paths(), "PATH": "/usr/bin:/bin"}
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (run.returncode, run.stderr) == (0, "")
    assert run.stdout.splitlines()[0].startswith("fits ")
    assert run.stdout.splitlines()[1] == "cancelled"

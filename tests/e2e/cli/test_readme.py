"""The README's tour is true: every command in it runs, and prints what is shown."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cli.conftest import Up

REPOSITORY = Path(__file__).parents[3]
DEFAULT_SERVER = "http://127.0.0.1:8000"
NOT_RUN = ("make ", "export ")
VOLATILE = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "<id>"),
    (re.compile(r"\d{4}-\d{2}-\d{2}T[0-9:.]+Z"), "<moment>"),
    (re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}\b"), "<moment>"),
    (re.compile(r"hr_[0-9a-f]{12}\S*"), "<key>"),
    (re.compile(r"\b\d+ ms\b"), "<time> ms"),
    (re.compile(r"about [0-9.]+ (s|min)\b"), "about <time>"),
    (re.compile(r"peak of the process .*$"), "peak of the process <bytes>"),
    (re.compile(r"kept memory_snapshot, [0-9.]+ [KM]iB"), "kept memory_snapshot, <bytes>"),
    (re.compile(r"\d+ % .*$"), "<progress>"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One command of the tour and the lines that it is said to print; an ellipsis leaves lines
    out.
    """

    command: str
    shown: tuple[str, ...]


def tour() -> list[Step]:
    """Return the commands of every console block in order."""
    steps: list[Step] = []
    for block in re.findall(
        r"```console\n(.*?)```", (REPOSITORY / "README.md").read_text(), flags=re.DOTALL
    ):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            steps.append(
                Step(
                    command=command,
                    shown=tuple(line for line in lines if line.strip() not in {"", "…"}),
                ),
            )
    return [step for step in steps if not step.command.startswith(NOT_RUN)]


def steady(line: str) -> str:
    """Return a line without what differs from run to run."""
    for pattern, word in VOLATILE:
        line = pattern.sub(word, line)
    return line.rstrip()


def run(step: Step, server: str) -> list[str]:
    """Return the lines that a command prints, on both streams, against the given server."""
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "COLUMNS": "110",
        "HEADROOM_URL": server,
        "HOME": "/nonexistent",
    }
    command = step.command.replace(DEFAULT_SERVER, server)
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return [steady(line) for line in (done.stdout + done.stderr).splitlines()]


def test_every_command_of_the_readme_prints_what_is_shown(up: Up) -> None:
    """A newcomer who types the tour sees the tour."""
    steps, server = tour(), up().url
    missing = {}
    for step in steps:
        printed = run(step, server)
        absent = [line for line in step.shown if steady(line) not in printed]
        if absent:
            missing[step.command] = (absent, printed)

    assert len(steps) > 10
    assert missing == {}

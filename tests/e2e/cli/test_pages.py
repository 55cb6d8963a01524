"""README, tutorial and how-tos are true: every command runs, and prints what is shown."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

from service.__main__ import main
from tests.e2e.cli.conftest import Up
from tests.running.forked import make_probe_command, put_on_path

REPOSITORY = Path(__file__).parents[3]
PAGES = (
    "README.md",
    "docs/tutorial.md",
    "docs/howto/how-many-gpus.md",
    "docs/howto/largest-batch.md",
    "docs/howto/images-and-video.md",
    "docs/howto/plan-on-a-cluster.md",
    "docs/howto/hooks.md",
    "docs/howto/slurm.md",
    "docs/howto/kubernetes.md",
    "docs/howto/kueue.md",
    "docs/howto/submit.md",
    "docs/howto/nodes.md",
    "docs/howto/import-cluster.md",
    "docs/howto/explain-oom.md",
    "docs/howto/ask-with-a-launch.md",
    "docs/howto/keys.md",
    "docs/howto/mcp.md",
    "docs/howto/measure.md",
    "docs/howto/import-logs.md",
    "docs/howto/model-files.md",
    "docs/howto/models-without-a-module.md",
    "docs/howto/diffusion.md",
)
"""In the order in which they run on one server: measurements change answers, so they come last."""
DEFAULT_SERVER = "http://127.0.0.1:8000"
NOT_RUN = ("make ", "export ")
_QUESTIONS = ("fit", "how-many", "plan", "ceilings", "explain", "slurm-flags")
QUESTIONS = tuple(f"headroom {name} " for name in _QUESTIONS)
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
    """A command of a page, and the lines that it shows; an ellipsis leaves lines out."""

    page: str
    command: str
    lines: tuple[str, ...]


def read_steps(page: str) -> list[Step]:
    """Return the commands of a page's console blocks in order."""
    steps: list[Step] = []
    for block in re.findall(
        r"```console\n(.*?)```", (REPOSITORY / page).read_text(), flags=re.DOTALL
    ):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, *lines = part.rstrip("\n").split("\n")
            printed = tuple(line for line in lines if line.strip() not in {"", "…"})
            steps.append(Step(page=page, command=command, lines=printed))
    return [step for step in steps if not step.command.startswith(NOT_RUN)]


def normalize(line: str) -> str:
    """Return a line without what differs from run to run."""
    for pattern, word in VOLATILE:
        line = pattern.sub(word, line)
    return line.rstrip()


def run(step: Step, server: str) -> list[str]:
    """Return the lines that a command prints, on both streams, against the given server.

    A reader names none: his commands find the usual one, and questions are answered offline. A
    question alone needs no shell, and in the others' shells `headroom` is a fork of a process that
    has its modules: a fresh one takes longer to start than to answer. What comes first, in README,
    is typed as it is.
    """
    programs = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    environment = {
        "PATH": programs if step.page == "README.md" else f"{put_on_path()}:{programs}",
        "COLUMNS": "110",
        "HOME": "/nonexistent",
    }
    if not any(question in step.command for question in QUESTIONS):
        environment["HEADROOM_URL"] = server
    command = step.command.replace(DEFAULT_SERVER, server)
    arguments = () if step.page == "README.md" else split_question(command)
    printed = run_here(arguments, environment) if arguments else run_shell(command, environment)
    return [normalize(line) for line in printed.splitlines()]


def split_question(command: str) -> tuple[str, ...]:
    """Return the arguments of a question; of what a shell has to read, none."""
    line = command.replace("\\\n", "")
    if not line.startswith(QUESTIONS) or set("\n$*~`") & set(line):
        return ()
    words = tuple(shlex.shlex(line, posix=True, punctuation_chars=True))
    return () if any(set(word) <= set("();<>|&") for word in words) else tuple(shlex.split(line))


def run_here(arguments: tuple[str, ...], environment: dict[str, str]) -> str:
    """Return what a command prints on both streams, run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with (
        mock.patch.dict(os.environ, environment, clear=True),
        chdir(REPOSITORY),
        redirect_stdout(out),
        redirect_stderr(err),
        suppress(SystemExit),  # what it printed says why
    ):
        main(arguments[1:])
    return out.getvalue() + err.getvalue()


def run_shell(command: str, environment: dict[str, str]) -> str:
    """Return what a line prints on both streams, typed into a shell."""
    done = subprocess.run(
        ["/bin/bash", "-c", command],
        env=environment,
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    return done.stdout + done.stderr


def test_every_command_of_the_pages_prints_what_is_shown(up: Up) -> None:
    """A newcomer who types what is on the pages sees what is on the pages."""
    server = up("--probe-command", make_probe_command()).url
    steps = [step for page in PAGES for step in read_steps(page)]

    missing = {}
    for step in steps:
        printed = run(step, server)
        absent = [line for line in step.lines if normalize(line) not in printed]
        if absent:
            missing[f"{step.page}: {step.command}"] = (absent, printed)

    assert len(steps) > 30
    assert missing == {}


def test_every_page_with_commands_is_run() -> None:
    """A how-to that is added is added to the list."""
    pages = {"README.md", "docs/tutorial.md"}
    pages |= {
        str(page.relative_to(REPOSITORY)) for page in (REPOSITORY / "docs" / "howto").glob("*.md")
    }

    assert pages == set(PAGES)

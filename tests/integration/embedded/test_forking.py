"""Children that are forks: as free of their parent as what a fresh interpreter runs."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import eventually

_REPOSITORY = Path(__file__).parents[3]


def act(name: str, root: Path) -> tuple[Any, int]:
    """Return what a program with forks says, and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.integration.embedded.forks", name, str(root)],
        cwd=_REPOSITORY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == ""
    return json.loads(done.stdout), done.returncode


def test_a_fork_finds_what_a_fresh_program_would(tmp_path: Path) -> None:
    """It leads a session, blocks and handles nothing, and has only the files it is to have."""
    (surroundings, passed), _ = act("describe", tmp_path)

    assert surroundings == {
        "name": "child\n",
        "leads its session": True,
        "umask": 0o077,
        "blocked": [],
        "handled": ["SIGINT"],
        "files": [0, 1, 2, passed],
        "environment": {"A": "b"},
        "input": "",
    }


def test_the_ends_of_forks_are_told_apart(tmp_path: Path) -> None:
    """A code is its own, an error is told with its words, a signal is a negative number."""
    (code, error, while_running, *ended), _ = act("end_each_way", tmp_path)

    assert "child ended with exit code 3" in code
    assert "child ended with exit code 1" in error
    assert "RuntimeError: no such table" in error
    assert (while_running, *ended) == (None, -signal.SIGTERM, -signal.SIGTERM)


def test_a_fork_ends_with_its_parent(tmp_path: Path) -> None:
    """A parent that is killed leaves nothing behind."""
    pid, code = act("leave", tmp_path)

    assert code == -signal.SIGKILL
    eventually(lambda: not psutil.pid_exists(pid) or psutil.Process(pid).status() == "zombie")


def test_a_process_with_threads_does_not_fork(tmp_path: Path) -> None:
    """A lock that another thread holds would stay closed in the child for ever."""
    refused, _ = act("fork_beside_a_thread", tmp_path)

    assert refused == "a process with 2 threads must not fork"

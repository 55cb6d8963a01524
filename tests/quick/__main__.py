"""``python -m tests.quick [--since COMMIT]``: runs the tests that a change touches."""

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.quick.arrows import read_sources
from tests.quick.changes import find_base, list_changes
from tests.quick.selection import select_tests

_ROOT = Path(__file__).resolve().parents[2]
_SECONDS = 60.0
_MAX_PROCESSES = 4
_NOTHING_COLLECTED = 5


def main(arguments: Sequence[str] | None = None) -> int:
    """Choose the tests and run them; return pytest's exit code."""
    options = _make_parser().parse_args(arguments)
    base = find_base(_ROOT, options.since)
    changed = sorted(list_changes(_ROOT, base))
    tests = select_tests(read_sources(_ROOT), changed)
    sys.stdout.write(
        f"{len(changed)} files changed since {base[:10]}; {len(tests)} files of tests reach them\n"
    )
    sys.stdout.flush()
    if options.list:
        sys.stdout.write("".join(f"{test}\n" for test in tests))
        return 0
    return _run(tests, seconds=options.seconds) if tests else 0


def _run(tests: Sequence[str], *, seconds: float) -> int:
    """Run files in their order until the time is up.

    It begins when they are collected.
    """
    processes = min(os.cpu_count() or 1, _MAX_PROCESSES, len(tests))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.quick.deadline"]
    parallel = ["-n", str(processes), "--dist", "loadfile", "--no-loadscope-reorder"]
    run = subprocess.run([*command, *parallel, "--seconds", str(seconds), *tests], check=False)
    return 0 if run.returncode == _NOTHING_COLLECTED else run.returncode


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.quick",
        description="Run the tests that the change since main touches, cheapest first.",
    )
    parser.add_argument("--since", metavar="COMMIT", help="where the change begins")
    parser.add_argument(
        "--seconds",
        type=float,
        default=_SECONDS,
        help="how long after collection tests begin (%(default)g)",
    )
    parser.add_argument("--list", action="store_true", help="name the files and run nothing")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""What is left out of a quick run, and how it is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick.deadline import describe_late

_ROOT = Path(__file__).resolve().parents[3]
_PASSING = "def test_it():\n    pass\n"
_FAILING = "def test_it():\n    assert False\n"
_SKIPPED = "import pytest\n\n\n@pytest.mark.skip\n" + _PASSING
_COLLECTED_LATE = """
import time

clock = time.monotonic
time.monotonic = lambda: clock() + 1000

"""


def run_pytest(folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """Run a folder's tests with the plugin and nothing else."""
    plugin = ("-p", "tests.quick.deadline", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *options],
        cwd=folder,
        env={"PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("test", "seconds", "status", "words"),
    [
        (_COLLECTED_LATE + _PASSING, "500", 0, "1 passed"),
        (_PASSING, "0", 1, "1 tests of 1 files: test_it.py"),
        (_FAILING, "inf", 1, "1 failed"),
        (_SKIPPED, "inf", 0, "1 skipped"),
    ],
)
def test_no_test_begins_when_the_time_is_up(
    tmp_path: Path, test: str, seconds: str, status: int, words: str
) -> None:
    """What would begin too late is named and does not run; a run of nothing else fails, and the
    time begins after collection.
    """
    (tmp_path / "test_it.py").write_text(test)

    run = run_pytest(tmp_path, "--seconds", seconds)

    assert run.returncode == status, run.stderr
    assert words in run.stdout


def test_of_many_files_the_first_are_named() -> None:
    """A file is named once, and twenty are enough to see what was left out."""
    late = [f"tests/test_{number}.py" for number in range(25) for _ in range(2)]

    told = describe_late(late)

    assert told.startswith("left out for time: 50 tests of 25 files: tests/test_0.py tests/test_1")
    assert told.endswith("tests/test_19.py and 5 more")

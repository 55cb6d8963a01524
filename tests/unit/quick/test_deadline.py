"""What is left out of a quick run, and how it is told."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.quick.deadline import describe_late

_ROOT = Path(__file__).resolve().parents[3]
_FAILING = "def test_it():\n    assert False\n"


@pytest.mark.parametrize(
    ("until", "status", "words"), [("0", 0, "1 tests of 1 files: test_late.py"), ("inf", 1, "")]
)
def test_no_test_begins_when_the_time_is_up(
    tmp_path: Path, until: str, status: int, words: str
) -> None:
    """What would begin too late is named and does not run; what is in time does."""
    (tmp_path / "test_late.py").write_text(_FAILING)
    plugin = ("-p", "tests.quick.deadline", "-p", "no:cacheprovider", "-p", "no:hypothesispytest")
    run = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "--until", until, "test_late.py"],
        cwd=tmp_path,
        env={"PYTHONPATH": str(_ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.returncode == status, run.stderr
    assert words in run.stdout


def test_of_many_files_the_first_are_named() -> None:
    """A file is named once, and twenty are enough to see what was left out."""
    late = [f"tests/test_{number}.py" for number in range(25) for _ in range(2)]

    told = describe_late(late)

    assert told.startswith("left out for time: 50 tests of 25 files: tests/test_0.py tests/test_1")
    assert told.endswith("tests/test_19.py and 5 more")

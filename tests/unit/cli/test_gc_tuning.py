"""A process that answers holds everything that stays out of the garbage collector's sight."""

import gc
import subprocess
import sys

import pytest

from service.cli.answer_source import Source, answer_question
from service.cli.gc_tuning import THRESHOLDS
from service.cli.offline import fit

PROGRAM = """
import gc, sys
from service.cli.gc_tuning import SWITCH_INTERVAL_S, THRESHOLDS, shorten_pauses
kept = [[] for _ in range(1000)]
shorten_pauses()
assert gc.get_freeze_count() >= 1000, gc.get_freeze_count()
assert gc.get_threshold() == THRESHOLDS
assert abs(sys.getswitchinterval() - SWITCH_INTERVAL_S) < 1e-9
"""


def test_what_is_loaded_is_not_looked_at_again() -> None:
    """In a process of its own, since it is for the whole process and for good."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_an_offline_answer_is_seldom_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """As rarely as a server's; afterwards the process collects as it did."""
    before, during = gc.get_threshold(), list[tuple[int, int, int]]()

    def answer(_document: object, _server: None) -> dict[str, object]:
        during.append(gc.get_threshold())
        return {}

    monkeypatch.setattr(fit, "fit", answer)

    answer_question("fit", {}, Source())

    assert during == [THRESHOLDS]
    assert gc.get_threshold() == before

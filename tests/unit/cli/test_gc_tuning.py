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

KEEPING = """
import gc, time, weakref
from service.cli.gc_tuning import MAX_PASSES, THRESHOLDS, shorten_pauses

class Cycle:
    def __init__(self):
        self.itself = self

shorten_pauses()
young = THRESHOLDS[0]
kept = [[] for _ in range(20 * young)]
seen = len(gc.get_objects())
assert seen < 2 * young, seen
assert gc.get_freeze_count() > 18 * young, gc.get_freeze_count()

cycle = Cycle()
left = weakref.ref(cycle)
gc.collect(0)
del cycle
gc.collect(1)
assert left() is not None, "a pass looked at what an earlier one had left"
for _ in range(MAX_PASSES):
    gc.collect(0)
deadline = time.monotonic() + 60
while left() is not None:
    assert time.monotonic() < deadline, "a cycle stays for ever"
    time.sleep(0.01)
assert len(kept) == 20 * young
"""


def test_what_is_loaded_is_not_looked_at_again() -> None:
    """In a process of its own, since it is for the whole process and for good."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")


def test_what_a_pass_leaves_is_looked_at_much_later() -> None:
    """No pass is longer for what is kept, and cycles among that end after a hundred."""
    done = subprocess.run(
        [sys.executable, "-c", KEEPING], capture_output=True, text=True, check=False
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

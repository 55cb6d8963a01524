"""A process that answers holds everything that stays out of the garbage collector's sight."""

import subprocess
import sys

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

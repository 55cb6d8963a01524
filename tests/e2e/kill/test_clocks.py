"""Clocks of a storm's hosts: one that jumps does so for whoever runs there, and for nobody else."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.clocks import Clock, make_clocks

HOUR_S = 3600.0
_OFFSET = "import time; print(time.time() - time.monotonic())"


def read_offset_s(clock: Clock) -> float:
    """Return how far a program's clock is ahead of the time since the machine began."""
    told = subprocess.run(
        (sys.executable, "-S", "-c", _OFFSET),
        env={**os.environ, **clock.list_variables()},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(told.stdout)


@pytest.mark.skipif(shutil.which("cc") is None, reason="the clocks are compiled")
def test_a_clock_jumps_for_its_host_alone(tmp_path: Path) -> None:
    """By an hour, back, and not for the other host."""
    clocks = make_clocks(tmp_path, ("a", "b"))
    clocks["a"].set(-HOUR_S)

    difference_s = read_offset_s(clocks["b"]) - read_offset_s(clocks["a"])

    assert difference_s == pytest.approx(HOUR_S, abs=HOUR_S / 4)

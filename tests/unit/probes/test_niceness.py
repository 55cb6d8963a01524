"""Who computes on processors gives way, who measures a GPU does not."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.jobs.contract import ProbeDevice
from worker.probes.niceness import NICE

AUTOGROUP = Path("/proc/self/autogroup")
PROGRAM = (
    "import os, sys; from service.jobs.contract import ProbeDevice; from worker.probes.niceness "
    "import lower_priority; lower_priority(ProbeDevice(sys.argv[1])); print(os.nice(0))"
)


@pytest.mark.parametrize(("device", "steps"), [("cpu", NICE), ("trace", NICE), ("cuda", 0)])
def test_a_probe_on_processors_goes_last(device: str, steps: int) -> None:
    """In a process of its own, since there is no way back."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, ProbeDevice(device).value],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )

    assert int(done.stdout) == min(19, os.nice(0) + steps)


@pytest.mark.skipif(not AUTOGROUP.exists(), reason="this kernel shares among processes alone")
def test_a_probe_that_is_run_by_hand_slows_no_shell_down() -> None:
    """Whoever shares its session, these tests as well, keeps the priority that he had."""
    before = AUTOGROUP.read_text()

    subprocess.run([sys.executable, "-c", PROGRAM, "cpu"], capture_output=True, check=True)

    assert AUTOGROUP.read_text() == before

"""A forked process for one job."""

import os
import time
from pathlib import Path

import psutil

from tests.processes import has_ended
from tests.waiting import eventually
from worker.job_process import JobProcess

TICK_S = 0.01


def no_tick() -> None:
    """Do nothing while waiting."""


def sleep_for_long() -> None:
    """Be there until somebody ends it."""
    time.sleep(600)


def test_its_end_is_reported(tmp_path: Path) -> None:
    """Work that returns ends with status 0, and it happened in another process."""
    note = tmp_path / "note"

    def work() -> None:
        note.write_text(str(os.getpid()))

    status = JobProcess(work).wait(tick=no_tick, tick_s=TICK_S)

    assert status == 0
    assert int(note.read_text()) != os.getpid()


def test_an_error_ends_it_and_nothing_else() -> None:
    """An exception is a status, never a second copy of the worker's loop."""

    def fail() -> None:
        message = "no"
        raise SystemExit(message)

    status = JobProcess(fail).wait(tick=no_tick, tick_s=TICK_S)

    assert status == 1


def test_the_worker_ticks_while_it_waits_and_can_kill() -> None:
    """The loop stays alive beside a job that hangs, and ends it."""
    ticks = 0

    def tick() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 3:
            process.kill()

    process = JobProcess(sleep_for_long)
    status = process.wait(tick=tick, tick_s=TICK_S)

    assert status == -9
    process.kill()  # once it is over this reaches nobody


def test_it_dies_with_the_process_that_forked_it(tmp_path: Path) -> None:
    """Kill -9 of the worker leaves no job process, and so no job that runs twice."""
    note = tmp_path / "note"

    def work() -> None:
        inner = JobProcess(sleep_for_long)
        (tmp_path / "new").write_text(str(inner.pid))
        (tmp_path / "new").rename(note)
        sleep_for_long()

    outer = JobProcess(work)
    eventually(note.exists)
    inner_pid = int(note.read_text())
    assert psutil.pid_exists(inner_pid)
    outer.kill()
    outer.wait(tick=no_tick, tick_s=TICK_S)

    eventually(lambda: has_ended(inner_pid))

"""Runs cases one at a time, each in a fresh process that has imported everything before its turn comes."""

import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from tests.gpu.sweep.case import Case
from tests.gpu.sweep.child import READY, Answer

CASE_DEADLINE_S = 60.0
_LAST_WORDS = 600


@dataclass(slots=True, kw_only=True)
class Stable:
    """Children that stand ready: ``ahead`` of them import while one works, and no more than ``num_left`` are ever started."""

    command: Sequence[str]
    ahead: int
    num_left: int
    log: IO[bytes]
    _waiting: "deque[subprocess.Popen[bytes]]" = field(default_factory=deque)

    def take(self) -> "subprocess.Popen[bytes]":
        """Return the child that has waited longest; another begins to import."""
        self._fill(max(1, self.ahead))
        child = self._waiting.popleft()
        self._fill(self.ahead)
        return child

    def close(self) -> None:
        """End those that nobody needed."""
        while self._waiting:
            kill(self._waiting.popleft())

    def _fill(self, num_ready: int) -> None:
        while len(self._waiting) < num_ready and self.num_left > 0:
            self.num_left -= 1
            child = subprocess.Popen(
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, start_new_session=True
            )
            self._waiting.append(child)


def child_command(device: str) -> tuple[str, ...]:
    """Return what a child runs."""
    return (sys.executable, "-m", "tests.gpu.sweep.child", "--device", device)


@contextmanager
def stable(command: Sequence[str], *, ahead: int, num_cases: int, log: Path) -> Iterator[Stable]:
    """Give a stable for so many cases; on leaving no child is left."""
    with log.open("ab") as words:
        children = Stable(command=command, ahead=ahead, num_left=num_cases, log=words)
        try:
            yield children
        finally:
            children.close()


def run_case(case: Case, children: Stable, *, deadline_s: float) -> Answer:
    """Return what a child says of a case; one that says nothing in time, or dies, has failed."""
    child = children.take()
    try:
        said, _ = child.communicate(msgspec.json.encode(case), timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return Answer(failed=f"no answer within {deadline_s:.0f} s")
    finally:
        kill(child)
    if child.returncode:
        return Answer(failed=f"the process ended with status {child.returncode}")
    try:
        return msgspec.json.decode(said.removeprefix(READY), type=Answer)
    except msgspec.MsgspecError as error:
        return Answer(failed=f"{error}: {said[-_LAST_WORDS:]!r}")


def run_all(cases: Sequence[Case], children: Stable, *, until: float, on_answer: Callable[[Case, Answer, float], None]) -> int:
    """Run cases until all are done or the clock says ``until``; return how many were run."""
    for number, case in enumerate(cases):
        left_s = until - time.monotonic()
        if left_s <= 0:
            return number
        began = time.monotonic()
        answer = run_case(case, children, deadline_s=min(CASE_DEADLINE_S, left_s))
        if answer.failed is not None and time.monotonic() >= until:
            # It was the budget that ended, so the case is run again when the sweep is resumed.
            return number
        on_answer(case, answer, time.monotonic() - began)
    return len(cases)


def kill(child: "subprocess.Popen[bytes]") -> None:
    """End a child and whatever it started."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()

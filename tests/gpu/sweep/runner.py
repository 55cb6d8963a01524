"""Runner of cases, one at a time, each in a fresh process.

The process has imported everything before its turn comes.
"""

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
from tests.gpu.sweep.child import READY, CaseResult

CASE_DEADLINE_S = 60.0
_OUTPUT_EXCERPT_BYTES = 600


@dataclass(slots=True, kw_only=True)
class ChildPool:
    """Child processes that are ready to run a case.

    ``ahead`` of them import while one works, and no more than ``num_remaining`` are ever started.
    """

    command: Sequence[str]
    ahead: int
    num_remaining: int
    log: IO[bytes]
    _waiting: "deque[subprocess.Popen[bytes]]" = field(default_factory=deque)

    def take(self) -> "subprocess.Popen[bytes]":
        """Return the child that has waited longest.

        Another one begins to import.
        """
        self._fill(max(1, self.ahead))
        child = self._waiting.popleft()
        self._fill(self.ahead)
        return child

    def close(self) -> None:
        """End the children that were not needed."""
        while self._waiting:
            kill(self._waiting.popleft())

    def _fill(self, num_ready: int) -> None:
        while len(self._waiting) < num_ready and self.num_remaining > 0:
            self.num_remaining -= 1
            child = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self.log,
                start_new_session=True,
            )
            self._waiting.append(child)


def build_child_command(device: str) -> tuple[str, ...]:
    """Build the command of a child."""
    return (sys.executable, "-m", "tests.gpu.sweep.child", "--device", device)


@contextmanager
def open_pool(
    command: Sequence[str], *, ahead: int, num_cases: int, log: Path
) -> Iterator[ChildPool]:
    """Open a pool of children; on leaving no child is left."""
    with log.open("ab") as log_file:
        pool = ChildPool(command=command, ahead=ahead, num_remaining=num_cases, log=log_file)
        try:
            yield pool
        finally:
            pool.close()


def run_case(case: Case, pool: ChildPool, *, deadline_s: float) -> CaseResult:
    """Run a case in a child and return its answer.

    A child that does not answer in time, or dies, has failed.
    """
    child = pool.take()
    try:
        output, _ = child.communicate(msgspec.json.encode(case), timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return CaseResult(failed=f"no answer within {deadline_s:.0f} s")
    finally:
        kill(child)
    if child.returncode:
        return CaseResult(failed=f"the process ended with status {child.returncode}")
    try:
        return msgspec.json.decode(output.removeprefix(READY), type=CaseResult)
    except msgspec.MsgspecError as error:
        return CaseResult(failed=f"{error}: {output[-_OUTPUT_EXCERPT_BYTES:]!r}")


def run_all(
    cases: Sequence[Case],
    pool: ChildPool,
    *,
    until: float,
    on_answer: Callable[[Case, CaseResult, float], None],
) -> int:
    """Run cases until all are done or ``until`` has come.

    Returns how many were run.
    """
    for number, case in enumerate(cases):
        remaining_s = until - time.monotonic()
        if remaining_s <= 0:
            return number
        began = time.monotonic()
        answer = run_case(case, pool, deadline_s=min(CASE_DEADLINE_S, remaining_s))
        if answer.failed is not None and time.monotonic() >= until:
            # It was the budget that ended, so the case is run again when the sweep is resumed.
            return number
        on_answer(case, answer, time.monotonic() - began)
    return len(cases)


def kill(child: "subprocess.Popen[bytes]") -> None:
    """End a child and its process group."""
    if child.poll() is None:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            pipe.close()

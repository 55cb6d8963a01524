"""Slurm: sbatch takes a job, squeue and sacct find it."""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from service.cli.submissions.clients import require_success, run_client
from service.cli.submissions.errors import SchedulerError
from service.cli.submissions.journal import Entry
from service.cli.submissions.scheduler import Sighting

_ENDED = frozenset(
    (
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "LAUNCH_FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "RECONFIG_FAIL",
        "REVOKED",
        "TIMEOUT",
    )
)
"""States of jobs that hold nothing any more (slurm.schedmd.com/job_state_codes.html)."""
_MIN_JOB_AGE = re.compile(r"^MinJobAge\s*=\s*([0-9]+) sec", re.MULTILINE)
_LOOKBACK = timedelta(days=30)
_USER = "user"


class Slurm:
    """Slurm's own clients."""

    format = "slurm"

    def locate(self) -> Mapping[str, str]:
        """Return the number of the user, whose jobs alone are looked at."""
        return {_USER: str(os.getuid())}

    def prepare(self, document: Any, entry: Entry) -> str:  # noqa: ANN401, ARG002 - sbatch's own options mark it
        """Return the batch script as it is."""
        return str(document)

    def submit(self, entry: Entry) -> str:
        """Submit the script, under the mark as its name.

        The comment is for people, and tells hooks that it was planned: one that begins with
        ``headroom:`` holds a question. Accounting drops it where a cluster keeps no comments.
        """
        command = (
            "sbatch",
            "--parsable",
            f"--job-name={entry.mark}",
            f"--comment=headroom-submission:{entry.id}",
        )
        printed = require_success(command, run_client(command, entry.payload))
        # Of a federation the line is "job;cluster".
        job = (printed.strip().splitlines() or [""])[-1].partition(";")[0]
        if not job.isdecimal():
            message = f"sbatch printed no job id, but {printed[:80]!r}"
            raise SchedulerError(message)
        return job

    def find(self, entry: Entry) -> Sighting:
        """Ask the controller, then the accounting."""
        jobs = (f"--name={entry.mark}", f"--user={entry.target.get(_USER, os.getuid())}")
        command = ("squeue", "--noheader", "--states=all", *jobs, "--format=%F|%T")
        rows = _read_rows(require_success(command, run_client(command)))
        if rows:
            return _sum_up(rows)
        start = datetime.now(UTC) - _LOOKBACK
        output = run_client(
            (
                "sacct",
                "--noheader",
                "--parsable2",
                "--allocations",
                *jobs,
                f"--starttime={start:%Y-%m-%d}",
                "--format=JobID,State",
            )
        )
        # Many clusters keep no accounting.
        if output.code == 0:
            rows = _read_rows(output.out)
            return _sum_up(rows) if rows else Sighting(is_certain=True)
        return Sighting(is_certain=_is_remembered(entry))


def _read_rows(text: str) -> list[tuple[str, str]]:
    """Return the job and the state of each line.

    Elements of an array are one job, and who cancelled it stands behind the state.
    """
    lines = (line.strip().partition("|") for line in text.splitlines() if "|" in line)
    return [(job.partition("_")[0], state.partition(" ")[0]) for job, _, state in lines]


def _sum_up(rows: list[tuple[str, str]]) -> Sighting:
    return Sighting(job=rows[0][0], is_alive=any(state not in _ENDED for _, state in rows))


def _is_remembered(entry: Entry) -> bool:
    """Return whether the controller would still know a job that was sent.

    It forgets an ended one after MinJobAge.
    """
    if entry.sent_at is None:
        return True
    command = ("scontrol", "show", "config")
    match = _MIN_JOB_AGE.search(require_success(command, run_client(command)))
    return match is not None and time.time() - entry.sent_at < int(match[1])

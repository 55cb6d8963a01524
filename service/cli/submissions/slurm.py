"""Slurm: sbatch takes a job, squeue and sacct find it."""

import os
import re
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from service.cli.submissions.clients import (
    PATIENCE_S,
    describe_failure,
    require_success,
    run_client,
)
from service.cli.submissions.errors import RefusedError, SchedulerError
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
"""States of jobs that hold nothing any more (slurm.schedmd.com/job_state_codes.html).

squeue shows a job that is requeued, whether its node failed or another job preempted it, as
COMPLETING and then PENDING.
"""
_REFUSED = re.compile(
    r"Batch job submission failed: (?:"
    r"Invalid (?:account|feature|generic|GRES|job array|license|node|partition|qos|Trackable|wckey)"
    r"|Requested (?:node|partition|reservation|time)"
    r"|(?:CPU count|Node count|Task count|Job violates|Memory required|More processors)"
    r"|(?:Access/permission denied|No partition|Time limit specification|User's group))",
    re.IGNORECASE,
)
"""Answers of a controller that does not take a job (src/common/slurm_errno.c).

After any other failure it may have taken it, or may take it yet: most of all a timeout.
"""
_ARRIVAL_S = PATIENCE_S + 100
"""How long a job may be on its way.

Its client is ended after the first, and may have sent it last; a round trip then takes
MessageTimeout at most, of which Slurm warns above 100 s (src/common/read_config.c).
"""
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
        ``headroom:`` holds a question. Accounting drops it where a cluster keeps no comments. The
        epilog of its nodes reads the digest at its end.
        """
        named = f" headroom-question={entry.digest}" if entry.digest else ""
        command = (
            "sbatch",
            "--parsable",
            f"--job-name={entry.mark}",
            f"--comment=headroom-submission:{entry.id}{named}",
        )
        output = run_client(command, entry.payload)
        if output.code != 0 and _REFUSED.search(output.err):
            raise RefusedError(describe_failure(command, output))
        printed = require_success(command, output)
        # Of a federation the line is "job;cluster".
        job = (printed.strip().splitlines() or [""])[-1].partition(";")[0]
        if not job.isdecimal():
            message = f"sbatch printed no job id, but {printed[:80]!r}"
            raise SchedulerError(message)
        return job

    def find(self, entry: Entry) -> Sighting:
        """Ask the controller, then the accounting.

        That neither knows a job says something once it would have arrived.
        """
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
        rows = _read_rows(output.out) if output.code == 0 else []
        if rows:
            return _sum_up(rows)
        if entry.sent_at is None:
            return Sighting(is_certain=True)
        age_s = time.time() - entry.sent_at
        # Many clusters keep no accounting.
        is_remembered = output.code == 0 or age_s < _read_min_job_age()
        return Sighting(is_certain=is_remembered and age_s >= _ARRIVAL_S)


def _read_rows(text: str) -> list[tuple[str, str]]:
    """Return the job and the state of each line.

    Elements of an array are one job, and who cancelled it stands behind the state.
    """
    lines = (line.strip().partition("|") for line in text.splitlines() if "|" in line)
    return [(job.partition("_")[0], state.partition(" ")[0]) for job, _, state in lines]


def _sum_up(rows: list[tuple[str, str]]) -> Sighting:
    return Sighting(job=rows[0][0], is_alive=any(state not in _ENDED for _, state in rows))


def _read_min_job_age() -> int:
    """Return the seconds for which the controller knows an ended job."""
    command = ("scontrol", "show", "config")
    match = _MIN_JOB_AGE.search(require_success(command, run_client(command)))
    return 0 if match is None else int(match[1])

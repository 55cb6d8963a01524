"""Invariants that hold after the storm: nothing lost, twice or wrong.

Each violation is a sentence.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from sqlalchemy import select, text
from sqlalchemy.orm import Session

from service.db.session import transaction
from service.db.tables.core import (
    CalibrationRow,
    MeasureJobRow,
    MeasurementEventRow,
    MeasurementResultRow,
    MeasurementSampleRow,
)
from service.jobs.states import Status
from service.usecases.stored import Sessions
from tests.chaos import expected
from tests.chaos.client import Cancellation, ClientJob

HEEDED_WITHIN_S = 30.0
"""How long after DELETE's answer an attempt may succeed that did not know of it.

Its worker looks every second. It misses looks while it is frozen or Postgres is away, five seconds
at most for each fault.
"""
FOLLOWERS = {
    None: {Status.QUEUED},
    Status.QUEUED: set(Status) - {Status.QUEUED},
    Status.RUNNING: set(Status) - {Status.RUNNING},
}
"""The statuses that may follow each in a job's events; none follows an end."""
LOGGED = (
    "attempt.fenced",
    "attempt.lost",
    "horse.died",
    "probe.died",
    "attempt.stale",
    "bell.failed",
    "heartbeat.missed",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecords:
    """All rows that the database has of one job."""

    job: MeasureJobRow
    results: Sequence[MeasurementResultRow]
    events: Sequence[MeasurementEventRow]
    samples: Sequence[MeasurementSampleRow]


def find_violations(sessions: Sessions, jobs: Sequence[ClientJob]) -> list[str]:
    """Return all violations of the invariants."""
    with transaction(sessions) as session:
        # Thousands of jobs take longer to compare than the database lets a transaction be idle.
        session.execute(text("SET LOCAL idle_in_transaction_session_timeout = 0"))
        rows = {str(row.id): row for row in session.scalars(select(MeasureJobRow))}
        violations = [*_check_across_jobs(session, jobs, rows)]
        for job in jobs:
            violations += job.violations
            row = rows.get(job.id)
            if row is None:
                violations.append(f"job {job.number} was accepted as {job.id!r} and is lost")
            else:
                violations += [
                    f"job {job.number}: {violation}"
                    for violation in _check_job(_load_records(session, row), job)
                ]
    return violations


def count_executions(sessions: Sessions) -> int:
    """Return how many attempts began."""
    with transaction(sessions) as session:
        return sum(session.scalars(select(MeasureJobRow.attempt)))


def count_logged(logs: Path) -> Counter[str]:
    """Count the processes' logged events that a storm should cause."""
    counts: Counter[str] = Counter()
    for file in logs.glob("*.log"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            event = _parse_event(line)
            if event in LOGGED:
                counts[event] += 1
    return counts


def _parse_event(line: str) -> str:
    if not line.startswith("{"):
        return ""
    try:
        return str(json.loads(line).get("event", ""))
    except json.JSONDecodeError:
        # Its writer was killed in the middle of it.
        return ""


def _check_across_jobs(
    session: Session, jobs: Sequence[ClientJob], rows: dict[str, MeasureJobRow]
) -> Iterator[str]:
    twice = [name for name, number in Counter(job.id for job in jobs).items() if number > 1]
    if twice:
        yield f"several requests share a job: {twice}"
    strangers = set(rows) - {job.id for job in jobs}
    if strangers:
        yield f"{len(strangers)} jobs were made twice: nobody knows {sorted(strangers)[:5]}"
    succeeded = {row.id for row in rows.values() if row.state == Status.SUCCEEDED}
    for calibration in session.scalars(select(CalibrationRow)):
        if not set(calibration.evidence) <= succeeded or len(set(calibration.evidence)) != len(
            calibration.evidence
        ):
            yield f"calibration {calibration.id} rests on evidence that is not there, or twice"


def _load_records(session: Session, row: MeasureJobRow) -> JobRecords:
    return JobRecords(
        job=row,
        results=session.scalars(
            select(MeasurementResultRow).where(MeasurementResultRow.job_id == row.id)
        ).all(),
        events=session.scalars(
            select(MeasurementEventRow)
            .where(MeasurementEventRow.job_id == row.id)
            .order_by(MeasurementEventRow.seq),
        ).all(),
        samples=session.scalars(
            select(MeasurementSampleRow)
            .where(MeasurementSampleRow.job_id == row.id)
            .order_by(MeasurementSampleRow.attempt, MeasurementSampleRow.seq),
        ).all(),
    )


def _check_job(records: JobRecords, client_job: ClientJob) -> Iterator[str]:
    job = records.job
    may_end = {Status.SUCCEEDED, Status.CANCELLED} if client_job.cancelled else {Status.SUCCEEDED}
    if job.state not in may_end:
        yield f"it is {job.state} ({job.phase}), error {job.error}"
    if client_job.cancelled:
        yield from _check_cancellation(job, client_job.cancelled)
    if len(records.results) != (job.state == Status.SUCCEEDED):
        yield f"it is {job.state} and has {len(records.results)} results"
    for result in records.results:
        if result.attempt != job.attempt:
            yield f"its result is of attempt {result.attempt}, the last was {job.attempt}"
        if result.peaks["allocated_bytes"] != expected.allocated_bytes(client_job.number):
            yield f"its result is {result.peaks['allocated_bytes']}, another job's or nobody's"
    yield from _check_events(records, client_job)
    yield from _check_samples(records, client_job.number)


def _check_cancellation(job: MeasureJobRow, told: Cancellation) -> Iterator[str]:
    """Yield what is wrong with a job whose DELETE was answered.

    A job that waits is cancelled at once, one that runs may end before its worker looks.
    """
    if not job.cancel_requested:
        yield "DELETE was answered, and nothing asks for its end"
    if told.status is Status.QUEUED or (told.status.is_terminal and told.status != job.state):
        yield f"DELETE said {told.status}, it is {job.state}"
    if job.state == Status.SUCCEEDED and job.attempt != told.attempt:
        yield f"DELETE was answered in attempt {told.attempt}, it succeeded in {job.attempt}"
    if job.finished_at is not None:
        late_s = (job.finished_at - told.answered_at).total_seconds()
        if job.state == Status.SUCCEEDED and late_s > HEEDED_WITHIN_S:
            yield f"it succeeded {late_s:.0f} s after DELETE was answered"


def _check_events(records: JobRecords, client_job: ClientJob) -> Iterator[str]:
    numbers = [event.seq for event in records.events]
    if numbers != list(range(1, records.job.last_event + 1)):
        yield f"its events are {numbers}, the last should be {records.job.last_event}"
    statuses = [
        (str(event.data["status"]), event.data["attempt"])
        for event in records.events
        if event.kind == "status"
    ]
    for before, after in pairwise((None, *(Status(status) for status, _ in statuses))):
        if after not in FOLLOWERS.get(before, set()):
            yield f"its status {after} follows {before}"
    ends = [status for status, _ in statuses if Status(status).is_terminal]
    if ends != [records.job.state] or statuses[-1][0] != records.job.state:
        yield f"its ends are {ends}, it is {records.job.state}"
    began = [attempt for status, attempt in statuses if status == Status.RUNNING]
    if began != list(range(1, records.job.attempt + 1)):
        yield f"attempts {began} began, {records.job.attempt} were counted"
    if client_job.seen and client_job.seen != numbers:
        yield f"its watcher saw events {client_job.seen}, there were {numbers}"


def _check_samples(records: JobRecords, number: int) -> Iterable[str]:
    for sample in records.samples:
        if sample.bytes != expected.sample_bytes(number, sample.seq):
            yield f"sample {sample.seq} of attempt {sample.attempt} is {sample.bytes}"
    positions = [sample.seq for sample in records.samples if sample.attempt == records.job.attempt]
    if records.results and positions != list(range(expected.NUM_SAMPLES)):
        yield f"its last attempt kept samples {positions} of {expected.NUM_SAMPLES}"

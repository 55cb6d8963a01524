"""What must hold when the storm is over: nothing lost, nothing twice, nothing wrong. Each violation is a sentence."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import select
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
from tests.chaos.client import Asked

LOGGED = ("attempt.fenced", "attempt.lost", "horse.died", "probe.died", "attempt.stale", "bell.failed", "heartbeat.missed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """Everything that the database holds about one job."""

    job: MeasureJobRow
    results: Sequence[MeasurementResultRow]
    events: Sequence[MeasurementEventRow]
    samples: Sequence[MeasurementSampleRow]


def violations(sessions: Sessions, asked: Sequence[Asked]) -> list[str]:
    """Return every sentence that should not be true."""
    with transaction(sessions) as session:
        rows = {str(row.id): row for row in session.scalars(select(MeasureJobRow))}
        found = [*_across(session, asked, rows)]
        for job in asked:
            found += job.violations
            row = rows.get(job.id)
            if row is None:
                found.append(f"job {job.number} was accepted as {job.id!r} and is lost")
            else:
                found += [f"job {job.number}: {words}" for words in _about(_findings(session, row), job)]
    return found


def count_executions(sessions: Sessions) -> int:
    """Return how many attempts began."""
    with transaction(sessions) as session:
        return sum(session.scalars(select(MeasureJobRow.attempt)))


def count_logged(logs: Path) -> Counter[str]:
    """Return how often the processes logged what a storm should bring about."""
    counts: Counter[str] = Counter()
    for file in logs.glob("*.log"):
        for line in file.read_text(encoding="utf-8", errors="replace").splitlines():
            event = _event(line)
            if event in LOGGED:
                counts[event] += 1
    return counts


def _event(line: str) -> str:
    if not line.startswith("{"):
        return ""
    try:
        return str(json.loads(line).get("event", ""))
    except json.JSONDecodeError:
        # Its writer was killed in the middle of it.
        return ""


def _across(session: Session, asked: Sequence[Asked], rows: dict[str, MeasureJobRow]) -> Iterator[str]:
    twice = [name for name, number in Counter(job.id for job in asked).items() if number > 1]
    if twice:
        yield f"several requests share a job: {twice}"
    strangers = set(rows) - {job.id for job in asked}
    if strangers:
        yield f"{len(strangers)} jobs were made twice: nobody knows {sorted(strangers)[:5]}"
    succeeded = {row.id for row in rows.values() if row.state == Status.SUCCEEDED}
    for calibration in session.scalars(select(CalibrationRow)):
        if not set(calibration.evidence) <= succeeded or len(set(calibration.evidence)) != len(calibration.evidence):
            yield f"calibration {calibration.id} rests on evidence that is not there, or twice"


def _findings(session: Session, row: MeasureJobRow) -> Findings:
    return Findings(
        job=row,
        results=session.scalars(select(MeasurementResultRow).where(MeasurementResultRow.job_id == row.id)).all(),
        events=session.scalars(
            select(MeasurementEventRow).where(MeasurementEventRow.job_id == row.id).order_by(MeasurementEventRow.seq)
        ).all(),
        samples=session.scalars(
            select(MeasurementSampleRow)
            .where(MeasurementSampleRow.job_id == row.id)
            .order_by(MeasurementSampleRow.attempt, MeasurementSampleRow.seq)
        ).all(),
    )


def _about(found: Findings, asked: Asked) -> Iterator[str]:
    job = found.job
    may_end = {Status.SUCCEEDED, Status.CANCELLED} if asked.cancelled else {Status.SUCCEEDED}
    if job.state not in may_end:
        yield f"it is {job.state} ({job.phase}), error {job.error}"
    if len(found.results) != (job.state == Status.SUCCEEDED):
        yield f"it is {job.state} and has {len(found.results)} results"
    for result in found.results:
        if result.attempt != job.attempt:
            yield f"its result is of attempt {result.attempt}, the last was {job.attempt}"
        if result.peaks["allocated_bytes"] != expected.allocated_bytes(asked.number):
            yield f"its result is {result.peaks['allocated_bytes']}, another job's or nobody's"
    yield from _about_events(found, asked)
    yield from _about_samples(found, asked.number)


def _about_events(found: Findings, asked: Asked) -> Iterator[str]:
    numbers = [event.seq for event in found.events]
    if numbers != list(range(1, found.job.last_event + 1)):
        yield f"its events are {numbers}, the last should be {found.job.last_event}"
    told = [(str(event.data["status"]), event.data["attempt"]) for event in found.events if event.kind == "status"]
    ends = [status for status, _ in told if Status(status).is_terminal]
    if ends != [found.job.state] or told[-1][0] != found.job.state:
        yield f"its ends are {ends}, it is {found.job.state}"
    began = [attempt for status, attempt in told if status == Status.RUNNING]
    if began != list(range(1, found.job.attempt + 1)):
        yield f"attempts {began} began, {found.job.attempt} were counted"
    if asked.seen and asked.seen != numbers:
        yield f"its watcher saw events {asked.seen}, there were {numbers}"


def _about_samples(found: Findings, number: int) -> Iterable[str]:
    for sample in found.samples:
        if sample.bytes != expected.sample_bytes(number, sample.seq):
            yield f"sample {sample.seq} of attempt {sample.attempt} is {sample.bytes}"
    kept = [sample.seq for sample in found.samples if sample.attempt == found.job.attempt]
    if found.results and kept != list(range(expected.NUM_SAMPLES)):
        yield f"its last attempt kept samples {kept} of {expected.NUM_SAMPLES}"

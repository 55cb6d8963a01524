"""One attempt at a job, as its worker lives it: claim, report, keep the lease, end it once."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec
from sqlalchemy.orm import Session

from service.db.queries import attempts as queries
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import Event
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.contract import (
    JobPayload,
    MeasureRequest,
    Planned,
    ProbeDevice,
    Progress,
    ProtocolError,
    Sample,
    parse_measure_request,
)
from service.jobs.states import QUEUE_LIMIT_S, JobState, Lease, Status, after_lost_attempt, lease_of
from service.telemetry.origin import NOWHERE, Origin
from service.usecases.stored import Sessions

Problem = dict[str, object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A claimed job; ``number`` is the fencing token of everything that is written for it."""

    job_id: uuid.UUID
    number: int
    request: MeasureRequest
    key: str
    origin: Origin = NOWHERE


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """Samples that no report has stored yet, and how many of the attempt were stored before them."""

    samples: tuple[Sample, ...] = ()
    before: int = 0


NOTHING_UNWRITTEN = Unwritten()


def find_queued(sessions: Sessions, *, device: ProbeDevice, gpu: str | None = None) -> JobPayload | None:
    """Return the job that an idle worker should claim next, one that any GPU or this ``gpu`` may run."""
    # Bytes that a processor or fake tensors tell are the same whatever GPU they are asked for.
    gpus = None if device is not ProbeDevice.CUDA else [gpu] if gpu is not None else []
    with transaction(sessions) as session:
        waiting = queries.next_queued(session, device=device.value, gpus=gpus)
    return None if waiting is None else JobPayload(job_id=waiting.job_id, attempt=waiting.attempt)


def claim(sessions: Sessions, payload: JobPayload, *, worker: str, lease_s: float, deadline_s: float) -> Attempt | None:
    """Begin the next attempt at a queued job; ``None`` when the ring was stale or another worker was faster."""
    with transaction(sessions) as session:
        row = queries.claim(
            session, payload.job_id, expected=payload.attempt, worker=worker, lease_s=lease_s, deadline_s=deadline_s
        )
        if row is None:
            return None
        try:
            request = parse_measure_request(row.request)
        except ProtocolError as error:
            unreadable = problem("unreadable-request", "This version cannot read the request", str(error))
            _end(session, payload.job_id, attempt=row.attempt, status=Status.FAILED, error=unreadable)
            return None
        worker_queries.beat(session, worker, state="busy", job_id=payload.job_id)
        queries.add_events(session, payload.job_id, [status_event(Status.RUNNING, attempt=row.attempt, worker=worker)])
    origin = Origin(request_id=row.request_id, traceparent=row.traceparent)
    return Attempt(job_id=payload.job_id, number=row.attempt, request=request, key=row.key, origin=origin)


def heartbeat(sessions: Sessions, attempt: Attempt, *, lease_s: float) -> Lease:
    """Extend the lease, and learn whether the job is cancelled or somebody else's by now."""
    with transaction(sessions) as session:
        queries.extend_lease(session, attempt.job_id, attempt=attempt.number, lease_s=lease_s)
        return lease_of(queries.read_state(session, attempt.job_id), attempt=attempt.number)


def look(sessions: Sessions, attempt: Attempt) -> Lease:
    """Learn what a heartbeat would, and leave the lease as it is."""
    with transaction(sessions) as session:
        return lease_of(queries.read_state(session, attempt.job_id), attempt=attempt.number)


def report(
    sessions: Sessions,
    attempt: Attempt,
    *,
    progress: Progress | None,
    samples: Sequence[Sample],
    samples_before: int,
    planned: Planned | None = None,
) -> bool:
    """Write plan, progress and samples of a running attempt; false when it is no longer the running one."""
    with transaction(sessions) as session:
        held = queries.report(
            session,
            attempt.job_id,
            attempt=attempt.number,
            progress=None if progress is None else min(max(progress.fraction, 0.0), 1.0),
            phase=None if progress is None else progress.phase,
        )
        if not held:
            return False
        unwritten = Unwritten(samples=tuple(samples), before=samples_before)
        events = _store(session, attempt.job_id, attempt=attempt.number, unwritten=unwritten)
        if planned is not None:
            events.insert(0, Event("plan", {"attempt": attempt.number, **_without(planned)}))
        if progress is not None:
            events.append(Event("progress", {"progress": progress.fraction, **_without(progress, "fraction")}))
        queries.add_events(session, attempt.job_id, events)
    return True


def settle(
    sessions: Sessions,
    attempt: Attempt,
    *,
    status: Status,
    error: Problem | None = None,
    write: Callable[[Session], None] | None = None,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
) -> bool:
    """End the job in one transaction, with what is ``unwritten`` and what ``write`` adds.

    False when a later attempt holds it; then nothing was written.
    """
    with transaction(sessions) as session:
        if not _end(session, attempt.job_id, attempt=attempt.number, status=status, error=error, unwritten=unwritten):
            return queries.is_settled(session, attempt.job_id, attempt=attempt.number, status=status)
        if write is not None:
            write(session)
    return True


def release(sessions: Sessions, job_id: uuid.UUID, *, attempt: int, reason: str) -> Status | None:
    """Give up a running attempt so that the next can begin at once; ``None`` when it was not running any more."""
    with transaction(sessions) as session:
        row = queries.lock_running(session, job_id, attempt=attempt)
        if row is None:
            return None
        return give_back(session, row, reason=reason)


def give_back(session: Session, row: MeasureJobRow, *, reason: str) -> Status:
    """Move a locked running row on after its attempt was lost: to the queue, or to its end."""
    status = after_lost_attempt(
        JobState(
            status=Status.RUNNING,
            attempt=row.attempt,
            max_attempts=row.max_attempts,
            cancel_requested=row.cancel_requested,
            overdue=row.deadline_at <= queries.database_now(session),
        )
    )
    error = _lost_problem(row, reason) if status is Status.FAILED else None
    move(session, row, status, error=error, reason=reason)
    return status


def move(session: Session, row: MeasureJobRow, status: Status, *, error: Problem | None, reason: str) -> None:
    """Write a locked row's next state and the event that tells of it."""
    now = queries.database_now(session)
    row.state, row.lease_until, row.error, row.phase = status.value, None, error, status.value
    if status is Status.QUEUED:
        row.progress, row.rung_at, row.deadline_at = 0.0, now, now + timedelta(seconds=QUEUE_LIMIT_S)
    if status.is_terminal:
        row.finished_at = now
    session.flush()
    queries.add_events(session, row.id, [status_event(status, attempt=row.attempt, error=error, reason=reason)])


def status_event(status: Status, *, attempt: int, **more: object) -> Event:
    """Return the event of a new status, without what is not known."""
    return Event(
        "status",
        {"status": status.value, "attempt": attempt, **{key: value for key, value in more.items() if value is not None}},
    )


def problem(slug: str, title: str, detail: str) -> Problem:
    """Return the problem document of a failed job; it was no HTTP request that failed, so it has no status."""
    return {"type": slug, "title": title, "detail": detail}


def _store(session: Session, job_id: uuid.UUID, *, attempt: int, unwritten: Unwritten) -> list[Event]:
    """Store samples, and return the events of those that were not there."""
    documents = [msgspec.structs.asdict(sample) for sample in unwritten.samples]
    fresh = queries.add_samples(session, job_id, attempt=attempt, first=unwritten.before, samples=documents)
    return [Event("sample", document) for document in fresh]


def _end(
    session: Session,
    job_id: uuid.UUID,
    *,
    attempt: int,
    status: Status,
    error: Problem | None,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
) -> bool:
    phase = "done" if status is Status.SUCCEEDED else status.value
    ended = queries.settle(session, job_id, attempt=attempt, status=status, phase=phase, error=error)
    if ended:
        last = status_event(status, attempt=attempt, error=error)
        queries.add_events(session, job_id, [*_store(session, job_id, attempt=attempt, unwritten=unwritten), last])
    return ended


def _lost_problem(row: MeasureJobRow, reason: str) -> Problem:
    return problem(
        "attempts-exhausted",
        "The measurement could not be finished",
        f"attempt {row.attempt} of {row.max_attempts} was the last; {reason}",
    )


def _without(message: msgspec.Struct, *names: str) -> dict[str, object]:
    return {key: msgspec.to_builtins(value) for key, value in msgspec.structs.asdict(message).items() if key not in names}

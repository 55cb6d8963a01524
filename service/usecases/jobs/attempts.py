"""Worker's protocol for one attempt: claim, report, lease, end."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import msgspec
from sqlalchemy.orm import Session

from service.db.queries import attempts as queries
from service.db.queries import queued_jobs
from service.db.queries import workers as worker_queries
from service.db.queries.attempts import Event
from service.db.session import transaction
from service.jobs.contract import (
    JobPayload,
    JobRequest,
    MeasureRequest,
    Planned,
    ProbeDevice,
    Progress,
    ProtocolError,
    Sample,
    parse_job_request,
)
from service.jobs.states import Lease, Status, get_lease
from service.runtime.logs import get_logger
from service.telemetry.origin import NO_ORIGIN, Origin
from service.usecases.jobs.status_changes import (
    Problem,
    end_lost_attempt,
    make_status_event,
)
from service.usecases.stored import Sessions


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A claimed job.

    ``number`` is the fencing token of everything that is written for it.
    """

    job_id: uuid.UUID
    number: int
    request: JobRequest
    key: str
    origin: Origin = NO_ORIGIN

    @property
    def measurement(self) -> MeasureRequest:
        """The request of an attempt at a measurement."""
        assert isinstance(self.request, MeasureRequest)  # noqa: S101 - who measures was asked to
        return self.request


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwritten:
    """Samples not stored by any report yet.

    ``before`` is how many samples of the attempt were stored before them.
    """

    samples: tuple[Sample, ...] = ()
    before: int = 0


NOTHING_UNWRITTEN = Unwritten()
_log = get_logger(__name__)


def find_queued(
    sessions: Sessions,
    *,
    device: ProbeDevice,
    gpu: str | None = None,
    unreadable: set[uuid.UUID] | None = None,
) -> JobPayload | None:
    """Return the job that an idle worker should claim next.

    It is one that any GPU or this ``gpu`` may run, and that this version can read: what a later one
    asks for stays in the queue for its workers, and is added to ``unreadable``.
    """
    skipped: set[uuid.UUID] = set() if unreadable is None else unreadable
    # Bytes that a processor or fake tensors tell are the same whatever GPU they are asked for.
    gpus = None if device is not ProbeDevice.CUDA else [gpu] if gpu is not None else []
    with transaction(sessions) as session:
        if skipped:
            # Those that a later version ran, or nobody will, are not in the queue any more.
            skipped &= queued_jobs.filter_queued(session, skipped)
        while True:
            waiting = queued_jobs.find_next_queued(
                session, device=device.value, gpus=gpus, skipped=skipped
            )
            if waiting is None:
                return None
            reason = _explain_unreadable(waiting.request)
            if reason is None:
                return JobPayload(job_id=waiting.job_id, attempt=waiting.attempt)
            _log.warning("job.left_to_newer", job_id=str(waiting.job_id), reason=reason)
            skipped.add(waiting.job_id)


def claim(
    sessions: Sessions, payload: JobPayload, *, worker: str, lease_s: float, deadline_s: float
) -> Attempt | None:
    """Begin the next attempt at a queued job.

    ``None`` when the notification was stale or another worker was faster. Raises ProtocolError, and
    claims nothing, where this version cannot read the request.
    """
    with transaction(sessions) as session:
        row = queries.claim(
            session,
            payload.job_id,
            expected=payload.attempt,
            worker=worker,
            lease_s=lease_s,
            deadline_s=deadline_s,
        )
        if row is None:
            return None
        request = parse_job_request(row.request)
        worker_queries.record_heartbeat(session, worker, state="busy", job_id=payload.job_id)
        queries.add_events(
            session,
            payload.job_id,
            [make_status_event(Status.RUNNING, attempt=row.attempt, worker=worker)],
        )
    origin = Origin(request_id=row.request_id, traceparent=row.traceparent)
    return Attempt(
        job_id=payload.job_id, number=row.attempt, request=request, key=row.key, origin=origin
    )


def renew_lease(sessions: Sessions, attempt: Attempt, *, lease_s: float) -> Lease:
    """Extend the lease and return its state.

    The state says whether the job is cancelled, or another worker's by now.
    """
    with transaction(sessions) as session:
        queries.extend_lease(session, attempt.job_id, attempt=attempt.number, lease_s=lease_s)
        return get_lease(queries.read_state(session, attempt.job_id), attempt=attempt.number)


def read_lease(sessions: Sessions, attempt: Attempt) -> Lease:
    """Return the state of the lease without extending it."""
    with transaction(sessions) as session:
        return get_lease(queries.read_state(session, attempt.job_id), attempt=attempt.number)


def report(
    sessions: Sessions,
    attempt: Attempt,
    *,
    progress: Progress | None,
    samples: Sequence[Sample],
    samples_before: int,
    planned: Planned | None = None,
) -> bool:
    """Write plan, progress and samples of a running attempt.

    Return False when it is no longer the running attempt.
    """
    with transaction(sessions) as session:
        is_running = queries.report(
            session,
            attempt.job_id,
            attempt=attempt.number,
            progress=None if progress is None else min(max(progress.fraction, 0.0), 1.0),
            phase=None if progress is None else progress.phase,
        )
        if not is_running:
            return False
        unwritten = Unwritten(samples=tuple(samples), before=samples_before)
        events = _store_samples(
            session, attempt.job_id, attempt=attempt.number, unwritten=unwritten
        )
        if planned is not None:
            events.insert(0, Event("plan", {"attempt": attempt.number, **_exclude_fields(planned)}))
        if progress is not None:
            events.append(
                Event(
                    "progress",
                    {"progress": progress.fraction, **_exclude_fields(progress, "fraction")},
                ),
            )
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
    """End the job in one transaction.

    Samples in ``unwritten`` and whatever ``write`` adds are stored with it. Return False when a
    later attempt holds the job; then nothing was written.
    """
    with transaction(sessions) as session:
        if not _end_job(
            session,
            attempt.job_id,
            attempt=attempt.number,
            status=status,
            error=error,
            unwritten=unwritten,
        ):
            return queries.is_settled(
                session, attempt.job_id, attempt=attempt.number, status=status
            )
        if write is not None:
            write(session)
    return True


def release(sessions: Sessions, job_id: uuid.UUID, *, attempt: int, reason: str) -> Status | None:
    """Give up a running attempt, so that the next begins at once.

    ``None`` when it was not running any more.
    """
    with transaction(sessions) as session:
        row = queries.lock_running(session, job_id, attempt=attempt)
        if row is None:
            return None
        return end_lost_attempt(session, row, reason=reason)


def _explain_unreadable(request: object) -> str | None:
    """Return why this version cannot read a request, if so."""
    try:
        parse_job_request(request)
    except ProtocolError as error:
        return str(error)
    return None


def _store_samples(
    session: Session, job_id: uuid.UUID, *, attempt: int, unwritten: Unwritten
) -> list[Event]:
    """Store samples and return the events of the new ones."""
    documents = [msgspec.structs.asdict(sample) for sample in unwritten.samples]
    fresh = queries.add_samples(
        session, job_id, attempt=attempt, first=unwritten.before, samples=documents
    )
    return [Event("sample", document) for document in fresh]


def _end_job(
    session: Session,
    job_id: uuid.UUID,
    *,
    attempt: int,
    status: Status,
    error: Problem | None,
    unwritten: Unwritten = NOTHING_UNWRITTEN,
) -> bool:
    phase = "done" if status is Status.SUCCEEDED else status.value
    ended = queries.settle(
        session, job_id, attempt=attempt, status=status, phase=phase, error=error
    )
    if ended:
        last = make_status_event(status, attempt=attempt, error=error)
        queries.add_events(
            session,
            job_id,
            [*_store_samples(session, job_id, attempt=attempt, unwritten=unwritten), last],
        )
    return ended


def _exclude_fields(message: msgspec.Struct, *names: str) -> dict[str, object]:
    return {
        key: msgspec.to_builtins(value)
        for key, value in msgspec.structs.asdict(message).items()
        if key not in names
    }

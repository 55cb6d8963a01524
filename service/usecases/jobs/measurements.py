"""Submit, read, list and cancel measurements.

The row is the job; a notification only makes it start sooner.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from service.access.keys import Principal
from service.access.owners import make_owner
from service.base.errors import MeasurementNotFoundError, NotCancellableError
from service.db.owners import read_owner
from service.db.pages import Page, PageRequest
from service.db.queries import measurements as queries
from service.db.queries.attempts import add_events
from service.db.queries.measurement_list import list_measurements, list_table_lines
from service.db.records.measurements import (
    MeasurementFilter,
    MeasurementLine,
    MeasurementSort,
    StoredEvent,
    StoredMeasurement,
)
from service.db.records.stored import NewJob
from service.db.session import transaction
from service.db.tables.core import MeasureJobRow
from service.jobs.contract import JobPayload, MeasureRequest
from service.jobs.notify import Notify
from service.jobs.states import Status
from service.runtime.logs import get_logger
from service.runtime.settings import Settings
from service.telemetry.origin import get_current_origin
from service.telemetry.spans import get_traceparent, span
from service.telemetry.tracing import Kind
from service.usecases.access.owners import check_owner
from service.usecases.idempotency import RequestKey, bind_job_key
from service.usecases.jobs.measurable import check_measurable
from service.usecases.jobs.quotas import charge_quota
from service.usecases.jobs.status_changes import change_status, make_status_event
from service.usecases.jobs.waiting import describe_waiting_phase, get_reason, update_phase
from service.usecases.stored import Sessions

MAX_EVENTS = 500

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Events in order; ``is_last`` when none will follow."""

    events: tuple[StoredEvent, ...]
    is_last: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """A request for a measurement.

    Its result teaches the calibration key. A request that was made before, by its idempotency key,
    gets the job that it made then.
    """

    request: MeasureRequest
    key: str
    idempotency: RequestKey | None = None


def submit(  # noqa: PLR0913 - who asks, for what, and the two that a new job needs
    sessions: Sessions,
    request: MeasureRequest,
    *,
    key: str,
    settings: Settings,
    notify: Notify,
    idempotency: RequestKey | None = None,
    caller: Principal | None = None,
) -> StoredMeasurement:
    """Store a queued job and notify a worker of it.

    It is the ``caller``'s, and counts against his quota.
    """
    submission = Submission(request=request, key=key, idempotency=idempotency)
    (stored,) = submit_all(sessions, [submission], settings=settings, notify=notify, caller=caller)
    return stored


def submit_all(
    sessions: Sessions,
    submissions: Sequence[Submission],
    *,
    settings: Settings,
    notify: Notify,
    caller: Principal | None = None,
) -> tuple[StoredMeasurement, ...]:
    """Store queued jobs, all or none, and notify workers."""
    for submission in submissions:
        check_measurable(submission.request)
    devices = sorted({submission.request.device.value for submission in submissions})
    with (
        span("measurement.submit", kind=Kind.PRODUCER, device=",".join(devices)),
        transaction(sessions) as session,
    ):
        job_ids, new = _bind_keys(session, submissions)
        if new and caller is not None:
            # Not before they are known to be new: who asks again for what he has asked for takes
            # nothing more.
            charge_quota(session, caller, len(new))
        for job_id, submission in new.items():
            job = _make_job(session, submission, settings=settings, caller=caller)
            _enqueue(session, job_id, submission.request, job)
        # In the same transaction: a second one would only be more rounds to the database.
        stored = tuple(_read(session, job_id) for job_id in job_ids)
    for job_id, submission in new.items():
        device = submission.request.device
        _log.info("measurement.submitted", job_id=str(job_id), device=device.value)
        # After the commit: a worker could otherwise look for a row that is not there yet.
        notify(device, JobPayload(job_id=job_id, attempt=0))
    return stored


def read(
    sessions: Sessions, job_id: UUID, *, gone_after_s: float | None = None
) -> StoredMeasurement:
    """Return one measurement.

    With ``gone_after_s`` a queued one has the phase of this moment, by the workers alive now.
    """
    with transaction(sessions) as session:
        stored = _read(session, job_id)
        if gone_after_s is not None:
            stored = update_phase(session, stored, gone_after_s=gone_after_s)
    return stored


def list_page(
    sessions: Sessions,
    request: PageRequest,
    filters: MeasurementFilter,
    sort: MeasurementSort = MeasurementSort.NEWEST,
) -> Page[StoredMeasurement]:
    """Return a page of measurements, newest first by default."""
    with transaction(sessions) as session:
        return list_measurements(session, request, filters, sort)


def list_lines(
    sessions: Sessions,
    request: PageRequest,
    filters: MeasurementFilter,
    sort: MeasurementSort = MeasurementSort.NEWEST,
) -> Page[MeasurementLine]:
    """Return a page of measurements as table lines."""
    with transaction(sessions) as session:
        return list_table_lines(session, request, filters, sort)


def list_events_after(sessions: Sessions, job_id: UUID, *, seq: int) -> EventBatch:
    """Return the events after event ``seq``, up to ``MAX_EVENTS``."""
    with transaction(sessions) as session:
        # The state first: the last event is committed with it, so reading it second cannot miss
        # that event.
        status = queries.read_status(session, job_id)
        if status is None:
            raise _make_not_found_error(job_id)
        events = queries.list_events_after(session, job_id, seq=seq, limit=MAX_EVENTS)
    return EventBatch(events=events, is_last=status.is_terminal and len(events) < MAX_EVENTS)


def cancel(
    sessions: Sessions, job_id: UUID, *, caller: Principal | None = None
) -> StoredMeasurement:
    """Cancel a queued job, or ask a running one to stop.

    Of a ``caller`` it must be his. A queued job ends at once, a running one as soon as its worker
    looks (every second).
    Cancelling twice is the same as once.
    """
    with transaction(sessions) as session:
        row = queries.lock_job(session, job_id)
        if row is None:
            raise _make_not_found_error(job_id)
        check_owner(caller, read_owner(row), what=f"measurement {job_id}")
        if row.state in {Status.SUCCEEDED, Status.FAILED}:
            message = (
                f"measurement {job_id} has {row.state}; only a queued or running one can be "
                "cancelled"
            )
            raise NotCancellableError(message, measurement_status=row.state)
        cancel_locked(session, row)
    return read(sessions, job_id)


def cancel_locked(session: Session, row: MeasureJobRow) -> None:
    """Cancel a locked job, if it is not over."""
    status = Status(row.state)
    if status.is_terminal:
        return
    row.cancel_requested = True
    if status is Status.QUEUED:
        change_status(
            session, row, Status.CANCELLED, error=None, reason="cancelled before it began"
        )


def _bind_keys(
    session: Session, submissions: Sequence[Submission]
) -> tuple[list[UUID], dict[UUID, Submission]]:
    """Return the id of each job, and those to be inserted."""
    job_ids: list[UUID] = []
    new: dict[UUID, Submission] = {}
    for submission in submissions:
        job_id = new_id = uuid4()
        if (key := submission.idempotency) is not None:
            job_id = bind_job_key(
                session, key=key.key, route=key.route, body=key.body, job_id=new_id
            )
        if job_id == new_id:
            new[job_id] = submission
        job_ids.append(job_id)
    return job_ids, new


def _read(session: Session, job_id: UUID) -> StoredMeasurement:
    stored = queries.read_measurement(session, job_id)
    if stored is None:
        raise _make_not_found_error(job_id)
    return stored


def _make_job(
    session: Session, submission: Submission, *, settings: Settings, caller: Principal | None
) -> NewJob:
    request = submission.request
    phase = describe_waiting_phase(
        session, request.device.value, gpu=request.gpu, gone_after_s=settings.lease_s
    )
    origin = get_current_origin()
    return NewJob(
        key=submission.key,
        max_attempts=settings.max_attempts,
        phase=phase,
        request_id=origin.request_id,
        traceparent=get_traceparent() or origin.traceparent,
        created_by=None if caller is None else make_owner(caller),
    )


def _enqueue(session: Session, job_id: UUID, request: MeasureRequest, new: NewJob) -> None:
    queries.insert_job(session, job_id, request, new)
    event = make_status_event(Status.QUEUED, attempt=0, reason=get_reason(new.phase))
    add_events(session, job_id, [event])


def _make_not_found_error(job_id: UUID) -> MeasurementNotFoundError:
    message = f"there is no measurement {job_id}"
    return MeasurementNotFoundError(message)

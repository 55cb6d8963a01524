"""Ask for a measurement, watch it, cancel it. The row is the job; a ring only makes it start sooner."""

from collections.abc import Callable
from dataclasses import dataclass
from uuid import UUID, uuid4

from sqlalchemy.orm import Session

from service.base.errors import MeasurementNotFoundError, NotCancellableError
from service.db.pages import Page, PageRequest
from service.db.queries import measurements as queries
from service.db.queries.attempts import add_events
from service.db.queries.measurement_list import page_of_lines, page_of_measurements
from service.db.records.measurements import MeasurementFilter, MeasurementLine, MeasurementSort, StoredEvent, StoredMeasurement
from service.db.records.stored import NewJob
from service.db.session import transaction
from service.jobs.contract import JobPayload, MeasureRequest
from service.jobs.notify import Ring
from service.jobs.states import Status
from service.runtime.logs import logger
from service.runtime.settings import Settings
from service.telemetry.origin import current_origin
from service.telemetry.spans import Kind, span, traceparent
from service.usecases.idempotency import RequestKey, job_for_key
from service.usecases.jobs.attempts import move, status_event
from service.usecases.jobs.measurable import check_measurable
from service.usecases.jobs.waiting import reason_of, waiting_phase
from service.usecases.stored import Sessions

MAX_EVENTS = 500

_log = logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EventBatch:
    """Events in order; ``is_last`` when none will follow."""

    events: tuple[StoredEvent, ...]
    is_last: bool


def submit(  # noqa: PLR0913 - who asks, for what, and the three that a new job needs
    sessions: Sessions,
    request: MeasureRequest,
    *,
    key: str,
    settings: Settings,
    ring: Ring,
    idempotency: RequestKey | None = None,
    charge: Callable[[], None] = lambda: None,
) -> StoredMeasurement:
    """Store a queued job, which ``charge`` may refuse, and ring for it, or return the job that the same request made before."""
    check_measurable(request)
    new_id = uuid4()
    with span("measurement.submit", kind=Kind.PRODUCER, device=request.device.value), transaction(sessions) as session:
        job_id = new_id
        if idempotency is not None:
            job_id = job_for_key(session, key=idempotency.key, route=idempotency.route, body=idempotency.body, job_id=new_id)
        if job_id == new_id:
            # Not before it is known to be new: who asks again for what he has asked for takes nothing more.
            charge()
            _enqueue(session, job_id, request, key=key, settings=settings)
        # In the same transaction: a second one would only be more rounds to the database.
        stored = queries.read_measurement(session, job_id)
    if stored is None:
        raise _not_found(job_id)
    if job_id == new_id:
        _log.info("measurement.submitted", job_id=str(job_id), device=request.device.value)
        # After the commit: a worker could otherwise look for a row that is not there yet.
        ring(request.device, JobPayload(job_id=job_id, attempt=0))
    return stored


def read(sessions: Sessions, job_id: UUID) -> StoredMeasurement:
    """Return one measurement."""
    with transaction(sessions) as session:
        found = queries.read_measurement(session, job_id)
    if found is None:
        raise _not_found(job_id)
    return found


def list_page(
    sessions: Sessions, request: PageRequest, wanted: MeasurementFilter, sort: MeasurementSort = MeasurementSort.NEWEST
) -> Page[StoredMeasurement]:
    """Return a page of measurements, newest first unless another order is asked for."""
    with transaction(sessions) as session:
        return page_of_measurements(session, request, wanted, sort)


def list_lines(
    sessions: Sessions, request: PageRequest, wanted: MeasurementFilter, sort: MeasurementSort = MeasurementSort.NEWEST
) -> Page[MeasurementLine]:
    """Return a page of measurements as a table shows them."""
    with transaction(sessions) as session:
        return page_of_lines(session, request, wanted, sort)


def events_after(sessions: Sessions, job_id: UUID, *, seq: int) -> EventBatch:
    """Return the events that follow event ``seq``: all that there are, or the next few hundred."""
    with transaction(sessions) as session:
        # The state first: the last event is committed with it, so reading it second cannot miss that event.
        status = queries.read_status(session, job_id)
        if status is None:
            raise _not_found(job_id)
        events = queries.events_after(session, job_id, seq=seq, limit=MAX_EVENTS)
    return EventBatch(events=events, is_last=status.is_terminal and len(events) < MAX_EVENTS)


def cancel(sessions: Sessions, job_id: UUID) -> StoredMeasurement:
    """Cancel a queued job at once, a running one as soon as its worker looks (every second); twice is once."""
    with transaction(sessions) as session:
        row = queries.lock_job(session, job_id)
        if row is None:
            raise _not_found(job_id)
        match Status(row.state):
            case Status.QUEUED:
                row.cancel_requested = True
                move(session, row, Status.CANCELLED, error=None, reason="cancelled before it began")
            case Status.RUNNING:
                row.cancel_requested = True
            case Status.SUCCEEDED | Status.FAILED:
                message = f"measurement {job_id} has {row.state}; only a queued or running one can be cancelled"
                raise NotCancellableError(message, measurement_status=row.state)
            case Status.CANCELLED:
                pass
    return read(sessions, job_id)


def count_by_status(sessions: Sessions) -> dict[Status, int]:
    """Return how many measurements there are in each state, none left out."""
    with transaction(sessions) as session:
        counts = queries.count_by_state(session)
    return {status: counts.get(status.value, 0) for status in Status}


def _enqueue(session: Session, job_id: UUID, request: MeasureRequest, *, key: str, settings: Settings) -> None:
    phase = waiting_phase(session, request.device.value, gone_after_s=settings.lease_s)
    origin = current_origin()
    new = NewJob(
        key=key,
        max_attempts=settings.max_attempts,
        phase=phase,
        request_id=origin.request_id,
        traceparent=traceparent() or origin.traceparent,
    )
    queries.insert_job(session, job_id, request, new)
    add_events(session, job_id, [status_event(Status.QUEUED, attempt=0, reason=reason_of(phase))])


def _not_found(job_id: UUID) -> MeasurementNotFoundError:
    message = f"there is no measurement {job_id}"
    return MeasurementNotFoundError(message)

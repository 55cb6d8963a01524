"""Asking for measurements, against a real database."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID, uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import (
    IdempotencyConflictError,
    MeasurementNotFoundError,
    NotCancellableError,
)
from service.db.records.measurements import MeasurementFilter, StoredMeasurement
from service.jobs.contract import JobPayload, MeasureRequest, Priority, ProbeDevice
from service.jobs.notify import skip_notification
from service.jobs.states import PRIORITY_S, QUEUE_LIMIT_S, Status
from service.runtime.settings import Settings
from service.usecases.idempotency import RequestKey
from service.usecases.jobs import attempts, measurements, outcomes, samples
from service.usecases.stored import PageRequest
from tests.job_builders import a_request, a_result

Sessions = sessionmaker[Session]


class Rings:
    """A notifier that remembers."""

    def __init__(self) -> None:
        """Hear nothing yet."""
        self.heard: list[tuple[ProbeDevice, JobPayload]] = []

    def __call__(self, device: ProbeDevice, payload: JobPayload) -> None:
        """Hear one ring."""
        self.heard.append((device, payload))


def submit(
    sessions: Sessions,
    request: MeasureRequest | None = None,
    *,
    idempotency: RequestKey | None = None,
    ring: Rings | None = None,
) -> UUID:
    """Return the id of the job for a request."""
    job = measurements.submit(
        sessions,
        request or a_request(),
        key="k",
        settings=Settings(),
        notify=ring or skip_notification,
        idempotency=idempotency,
    )
    return job.id


def a_key(key: str = "one", body: bytes = b"{}") -> RequestKey:
    """Return an Idempotency-Key with its body."""
    return RequestKey(key=key, route="POST /v1/measurements", body=body)


def finish(sessions: Sessions, job_id: UUID) -> None:
    """Let a job succeed."""
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=0), worker="w", lease_s=30, deadline_s=600
    )
    assert attempt is not None
    assert outcomes.succeed(sessions, attempt, a_result())


def test_a_job_is_stored_and_then_rung_for(sessions: Sessions) -> None:
    """The ring names a row that is there, and the attempt that the claim expects."""
    rings = Rings()

    job_id = submit(sessions, ring=rings)

    assert rings.heard == [(ProbeDevice.CPU, JobPayload(job_id=job_id, attempt=0))]
    job = measurements.read(sessions, job_id)
    assert (job.status, job.progress, job.attempt, job.model_name) == (
        Status.QUEUED,
        0.0,
        0,
        "tiny",
    )
    assert job.deadline_at - job.created_at == timedelta(seconds=QUEUE_LIMIT_S)


def test_fifty_requests_with_one_key_make_one_job(sessions: Sessions) -> None:
    """However they interleave, all get the same job, and one ring."""
    rings = Rings()

    with ThreadPoolExecutor(8) as pool:
        ids = list(pool.map(lambda _: submit(sessions, idempotency=a_key(), ring=rings), range(50)))

    assert len(set(ids)) == 1
    assert len(rings.heard) == 1
    assert len(measurements.list_page(sessions, PageRequest(), MeasurementFilter()).items) == 1


def test_one_key_for_two_bodies_is_a_conflict(sessions: Sessions) -> None:
    """The key stands for what it came with first."""
    submit(sessions, idempotency=a_key(body=b"{}"))

    with pytest.raises(IdempotencyConflictError):
        submit(sessions, idempotency=a_key(body=b"[]"))


def test_requests_without_a_key_are_jobs_of_their_own(sessions: Sessions) -> None:
    """Nothing is merged that nobody asked to merge."""
    assert submit(sessions) != submit(sessions)


def test_urgent_jobs_go_first_and_equal_ones_in_order(sessions: Sessions) -> None:
    """Priority decides, then age."""
    order = [Priority.LOW, Priority.NORMAL, Priority.HIGH, Priority.NORMAL]
    low, normal, high, later = (
        submit(sessions, a_request(priority=priority)) for priority in order
    )

    taken = []
    for _ in order:
        payload = attempts.find_queued(sessions, device=ProbeDevice.CPU)
        assert payload is not None
        attempts.claim(sessions, payload, worker="w", lease_s=30, deadline_s=600)
        taken.append(payload.job_id)

    assert taken == [high, normal, later, low]


@pytest.mark.parametrize(("headstart", "first"), [(0.9, Priority.HIGH), (1.1, Priority.LOW)])
def test_nobody_waits_for_ever(sessions: Sessions, headstart: float, first: Priority) -> None:
    """A step of priority is worth an hour: a low job that waited for more than two goes before a
    fresh high one.
    """
    jobs = {
        priority: submit(sessions, a_request(priority=priority))
        for priority in (Priority.LOW, Priority.HIGH)
    }
    waited_s = headstart * 2 * PRIORITY_S
    with sessions.begin() as session:
        older = (
            "UPDATE measurements SET created_at = created_at - make_interval(secs => :s) WHERE id "
            "= :id"
        )
        session.execute(text(older), {"s": waited_s, "id": jobs[Priority.LOW]})

    found = attempts.find_queued(sessions, device=ProbeDevice.CPU)

    assert found is not None
    assert found.job_id == jobs[first]


def test_a_queued_job_is_cancelled_at_once(sessions: Sessions) -> None:
    """No worker will take it, and its events end."""
    job_id = submit(sessions)

    assert measurements.cancel(sessions, job_id).status is Status.CANCELLED

    assert attempts.find_queued(sessions, device=ProbeDevice.CPU) is None
    batch = measurements.list_events_after(sessions, job_id, seq=0)
    assert [one.data["status"] for one in batch.events] == ["queued", "cancelled"]
    assert batch.is_last
    assert measurements.cancel(sessions, job_id).status is Status.CANCELLED


def test_what_is_over_cannot_be_cancelled(sessions: Sessions) -> None:
    """The result stays, and the refusal names the state."""
    job_id = submit(sessions)
    finish(sessions, job_id)

    with pytest.raises(NotCancellableError, match="has succeeded"):
        measurements.cancel(sessions, job_id)


def test_a_list_shows_what_was_asked_for(sessions: Sessions) -> None:
    """Model, GPU, device, state and date narrow the list; newest come first."""
    first = submit(sessions, a_request(name="a", gpu="H200"))
    second = submit(sessions, a_request(name="b"))
    finish(sessions, second)
    created = measurements.read(sessions, second).created_at

    def ids(wanted: MeasurementFilter) -> list[UUID]:
        return [item.id for item in measurements.list_page(sessions, PageRequest(), wanted).items]

    assert ids(MeasurementFilter()) == [second, first]
    assert ids(MeasurementFilter(model="a")) == [first]
    assert ids(MeasurementFilter(gpu="H200")) == [first]
    assert ids(MeasurementFilter(status=Status.SUCCEEDED)) == [second]
    assert ids(MeasurementFilter(device="cuda")) == []
    assert ids(MeasurementFilter(created_after=created)) == [second]
    assert ids(MeasurementFilter(created_before=created)) == [first]


def test_pages_neither_skip_nor_repeat(sessions: Sessions) -> None:
    """Following the cursor visits every job once, with its result."""
    ids = [submit(sessions) for _ in range(5)]
    finish(sessions, ids[0])

    seen: list[StoredMeasurement] = []
    cursor: str | None = None
    while True:
        page = measurements.list_page(
            sessions, PageRequest(limit=2, cursor=cursor), MeasurementFilter()
        )
        seen += page.items
        cursor = page.next_cursor
        if cursor is None:
            break

    assert [item.id for item in seen] == ids[::-1]
    assert [item.result is not None for item in seen] == [False, False, False, False, True]


def test_events_can_be_read_from_anywhere(sessions: Sessions) -> None:
    """Whoever reconnects names the last event he has seen, and gets what follows."""
    job_id = submit(sessions)
    finish(sessions, job_id)

    everything = measurements.list_events_after(sessions, job_id, seq=0)
    rest = measurements.list_events_after(sessions, job_id, seq=1)

    assert [one.data["status"] for one in everything.events] == ["queued", "running", "succeeded"]
    assert rest.events == everything.events[1:]
    assert everything.is_last


def test_a_measurement_that_is_not_there_is_not_found(sessions: Sessions) -> None:
    """Every question about an unknown id gets the same answer."""
    unknown = uuid4()

    for ask in (
        lambda: measurements.read(sessions, unknown),
        lambda: measurements.cancel(sessions, unknown),
        lambda: samples.list_page(sessions, unknown, PageRequest()),
        lambda: measurements.list_events_after(sessions, unknown, seq=0),
    ):
        with pytest.raises(MeasurementNotFoundError):
            ask()

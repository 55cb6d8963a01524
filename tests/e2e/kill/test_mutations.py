"""Each invariant of the storm reports the fault that it is there for.

The fault is built into the code, and a few jobs then meet what a storm does to them, one after the
other and without a process: two workers at once, a lease that ends, a request sent again, a DELETE.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta
from typing import Any
from uuid import UUID

import httpx
import pytest
from sqlalchemy import select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import ConflictError, ServiceError
from service.db.queries import attempts as queries
from service.db.tables.core import MeasureJobRow
from service.jobs.contract import JobPayload, Sample
from service.jobs.notify import skip_notification
from service.jobs.states import Lease, Status
from service.usecases.jobs import attempts, measurements, outcomes
from service.usecases.jobs.attempts import Attempt, Unwritten
from service.usecases.operations import reconcile
from tests.chaos import expected
from tests.chaos.client import ClientJob, cancel, new_job, start_thread, submit
from tests.chaos.invariants import find_violations
from tests.chaos.storm import join_all
from tests.job_builders import a_result
from tests.unit.api.builders import parts, served

Sessions = sessionmaker[Session]


def claim(
    sessions: Sessions, job: ClientJob, *, after: int = 0, lease_s: float = 600.0
) -> Attempt | None:
    """Claim a job as a worker does that was notified after attempt ``after``."""
    payload = JobPayload(job_id=UUID(job.id), attempt=after)
    return attempts.claim(sessions, payload, worker="w", lease_s=lease_s, deadline_s=600)


def end(sessions: Sessions, job: ClientJob, attempt: Attempt | None) -> None:
    """End an attempt as its worker does, unless there is none."""
    if attempt is None:
        return
    if attempts.read_lease(sessions, attempt) is Lease.CANCELLED:
        outcomes.cancel(sessions, attempt)
        return
    samples = tuple(
        Sample(t_s=0.0, kind="process_rss", bytes=expected.sample_bytes(job.number, index))
        for index in range(expected.NUM_SAMPLES)
    )
    result = a_result(allocated_bytes=expected.allocated_bytes(job.number))
    # A worker whose result another's is in the way of says so in its log.
    with suppress(ServiceError, IntegrityError):
        outcomes.succeed(sessions, attempt, result, unwritten=Unwritten(samples=samples))


def run_through(sessions: Sessions, http: httpx.Client) -> Sequence[ClientJob]:
    """Let jobs meet what a storm does to them, each something else."""
    jobs = [new_job(number) for number in range(1, 6)]
    for job in jobs:
        submit(http, job)
    repeated, waiting, running, raced, lost = jobs

    submit(http, repeated)
    end(sessions, repeated, claim(sessions, repeated))

    cancel(http, waiting)
    end(sessions, waiting, claim(sessions, waiting))

    attempt = claim(sessions, running)
    cancel(http, running)
    end(sessions, running, attempt)

    first, second = claim(sessions, raced), claim(sessions, raced)
    end(sessions, raced, first)
    end(sessions, raced, second)

    late = claim(sessions, lost, lease_s=0.0)
    reconcile.reconcile(sessions, rering_after_s=600, gone_after_s=600, notify=skip_notification)
    next_attempt = claim(sessions, lost, after=1)
    if next_attempt is not None:
        end(sessions, lost, late)
        end(sessions, lost, next_attempt)
    return jobs


def find_faults(sessions: Sessions) -> str:
    """Return what the invariants report of a run."""
    with served(replace(parts(), sessions=sessions)) as http:
        jobs = run_through(sessions, http)
    return "\n".join(find_violations(sessions, jobs))


def bind_nothing(_session: Session, *, job_id: UUID, **_key: object) -> UUID:
    """Take every request for a new one."""
    return job_id


def cancel_nothing(_session: Session, _row: MeasureJobRow) -> None:
    """Answer DELETE, and do nothing."""


def refuse_to_cancel(_session: Session, _row: MeasureJobRow) -> None:
    """Answer DELETE as that of a job that is over."""
    message = "it is over"
    raise ConflictError(message)


def hold_for_ever(_sessions: Sessions, _attempt: Attempt) -> Lease:
    """Look at no cancellation."""
    return Lease.HELD


def ignore_state(write: Callable[..., object], number: str) -> Callable[..., object]:
    """Return a compare-and-set without its comparison.

    It takes a job in any state, and whatever attempt the argument ``number`` says.
    """

    def set_uncompared(session: Session, job_id: UUID, **facts: object) -> object:
        if session.get_one(MeasureJobRow, job_id).state != Status.RUNNING or number == "expected":
            queued = {"state": Status.QUEUED, "lease_until": None, "finished_at": None}
            session.execute(update(MeasureJobRow).where(MeasureJobRow.id == job_id).values(queued))
        newest = session.scalars(
            select(MeasureJobRow.attempt).where(MeasureJobRow.id == job_id)
        ).one()
        return write(session, job_id, **{**facts, number: newest})

    return set_uncompared


def reconcile_nothing(*_arguments: object) -> tuple[int, int]:
    """Take no lost attempt back."""
    return (0, 0)


def leave_a_gap(
    write: Callable[[Session, UUID, Sequence[queries.Event]], None],
) -> Callable[[Session, UUID, Sequence[queries.Event]], None]:
    """Return what hands out a number that no event has."""

    def add_events(session: Session, job_id: UUID, events: Sequence[queries.Event]) -> None:
        more = {"last_event": MeasureJobRow.last_event + 1}
        session.execute(update(MeasureJobRow).where(MeasureJobRow.id == job_id).values(more))
        write(session, job_id, events)

    return add_events


def test_a_run_without_a_fault_has_no_violations(sessions: Sessions) -> None:
    """What follows is reported for its fault alone."""
    assert find_faults(sessions) == ""


@pytest.mark.parametrize(
    ("module", "name", "mutant", "words"),
    [
        (
            measurements,
            "bind_job_key",
            bind_nothing,
            {"job 1: its key brought", "1 jobs were made twice"},
        ),
        (
            measurements,
            "cancel_locked",
            cancel_nothing,
            {"job 2: DELETE said queued", "job 3: DELETE was answered, and nothing asks for"},
        ),
        (
            measurements,
            "cancel_locked",
            refuse_to_cancel,
            {
                "job 2: DELETE was refused while it was queued",
                "job 3: DELETE was refused while it was running",
            },
        ),
        (
            queries,
            "claim",
            ignore_state(queries.claim, "expected"),
            {"job 2: its status running follows cancelled", "job 4: its status running follows"},
        ),
        (
            queries,
            "settle",
            ignore_state(queries.settle, "attempt"),
            {"job 5: its result is of attempt 1, the last was 2"},
        ),
        (reconcile, "_reclaim_expired", reconcile_nothing, {"job 5: it is running"}),
        (queries, "add_events", leave_a_gap(queries.add_events), {"job 1: its events are"}),
    ],
)
def test_a_fault_is_reported(
    sessions: Sessions,
    monkeypatch: pytest.MonkeyPatch,
    module: Any,  # noqa: ANN401 - of the fault
    name: str,
    mutant: Callable[..., object],
    words: set[str],
) -> None:
    """The code has a fault, and the invariants say what it did to which job."""
    monkeypatch.setattr(module, name, mutant)

    reported = find_faults(sessions)

    assert {sentence for sentence in words if sentence in reported} == words


def test_a_cancellation_that_no_worker_heeds_is_reported(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that goes on for a minute after DELETE has not lost a race."""
    monkeypatch.setattr(attempts, "read_lease", hold_for_ever)
    with served(replace(parts(), sessions=sessions)) as http:
        jobs = run_through(sessions, http)
    with sessions.begin() as session:
        later = MeasureJobRow.finished_at + timedelta(minutes=1)
        session.execute(update(MeasureJobRow).values(finished_at=later))

    assert "job 3: it succeeded 60 s after DELETE" in "\n".join(find_violations(sessions, jobs))


def test_a_client_without_an_answer_is_reported() -> None:
    """Who waits after the calm has waited for nothing."""
    answered = threading.Event()

    def watch(_http: httpx.Client, job: ClientJob) -> None:
        if job.number == 2:
            answered.wait()

    threads = [start_thread(watch, "http://127.0.0.1:1", new_job(number)) for number in (1, 2)]
    threads[0].join()
    violations = join_all(threads, within_s=0.0)
    answered.set()

    assert violations == ["watch-2 was not answered within 0 s of calm"]
    assert join_all(threads, within_s=60.0) == []

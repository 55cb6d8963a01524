"""Progress and samples of an attempt against a real database: each is told once, and none is lost
with its attempt's end.
"""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import (
    FailureKind,
    JobPayload,
    Planned,
    PlannedRun,
    ProbeFailure,
    Progress,
    Sample,
)
from service.jobs.notify import skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, outcomes, samples
from service.usecases.jobs.attempts import Attempt, Unwritten
from service.usecases.operations.reconcile import reconcile
from service.usecases.stored import PageRequest
from tests.job_builders import a_request, a_result

Sessions = sessionmaker[Session]
READINGS = tuple(Sample(t_s=0.1 * size, kind="process_rss", bytes=size) for size in (10, 20, 30))


def submitted(sessions: Sessions) -> UUID:
    """Return the id of a queued job."""
    return measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    ).id


def claimed(sessions: Sessions, job_id: UUID) -> Attempt:
    """Return the first attempt at a queued job."""
    attempt = attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=0), worker="w", lease_s=30, deadline_s=600
    )
    assert attempt is not None
    return attempt


def give_back(sessions: Sessions, job_id: UUID) -> None:
    """Let a lease run out, and the loop see it."""
    with sessions.begin() as session:
        session.execute(
            text("UPDATE measurements SET lease_until = now() - interval '1 s' WHERE id = :id"),
            {"id": job_id},
        )
    reconcile(sessions, rering_after_s=15, gone_after_s=30, notify=skip_notification)


def kinds(sessions: Sessions, job_id: UUID) -> list[str]:
    """Return the kinds of a job's events, without what the queue tells of itself."""
    return [
        one.kind
        for one in measurements.list_events_after(sessions, job_id, seq=0).events
        if "total" in one.data or one.kind != "progress"
    ]


def sizes(sessions: Sessions, job_id: UUID) -> list[int]:
    """Return the samples that are kept."""
    return [one.bytes for one in samples.list_page(sessions, job_id, PageRequest()).items]


def test_progress_and_samples_are_seen_by_who_watches(sessions: Sessions) -> None:
    """The job says how far it is, the events tell the way, the samples are kept in order."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    line = Progress(phase="layers 1 of 2", done=1, total=4, fraction=0.25, reading="1.2 GiB")
    readings = [
        Sample(t_s=0.1, kind="process_rss", bytes=10),
        Sample(t_s=0.2, kind="process_rss", bytes=20),
    ]

    assert attempts.report(sessions, attempt, progress=line, samples=readings, samples_before=0)
    assert attempts.report(sessions, attempt, progress=None, samples=readings[:1], samples_before=2)

    job = measurements.read(sessions, job_id)
    assert (job.progress, job.phase) == (0.25, "layers 1 of 2")
    batch = measurements.list_events_after(sessions, job_id, seq=0)
    assert [one.seq for one in batch.events] == [1, 2, 3, 4, 5, 6]
    assert [one.kind for one in batch.events] == [
        "status",
        "status",
        "sample",
        "sample",
        "progress",
        "sample",
    ]
    assert batch.events[4].data == {
        "progress": 0.25,
        "phase": "layers 1 of 2",
        "done": 1,
        "total": 4,
        "reading": "1.2 GiB",
    }
    assert not batch.is_last
    assert [one.bytes for one in samples.list_page(sessions, job_id, PageRequest()).items] == [
        10,
        20,
        10,
    ]


def test_a_report_that_is_repeated_stores_samples_once(sessions: Sessions) -> None:
    """After a lost acknowledgement the same samples come again under the same numbers."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    readings = [Sample(t_s=0.1, kind="process_rss", bytes=10)]

    for _ in range(2):
        attempts.report(sessions, attempt, progress=None, samples=readings, samples_before=0)

    assert len(samples.list_page(sessions, job_id, PageRequest()).items) == 1
    assert [one.kind for one in measurements.list_events_after(sessions, job_id, seq=0).events] == [
        "status",
        "status",
        "sample",
    ]


def test_a_plan_is_told_before_what_it_plans(sessions: Sessions) -> None:
    """Who watches sees what will be run and how long that takes; the numbers of the job stay what
    they are.
    """
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    run = PlannedRun(
        num_layers=1, micro_batch_size=1, sequence_length=8, why="the first layer", expected_s=1.5
    )
    plan = Planned(runs=(run,), expected_s=1.5, notes=("one kind of layer",))
    line = Progress(phase="layers 1 of 2", done=1, total=4, fraction=0.25)

    assert attempts.report(
        sessions, attempt, progress=line, samples=[], samples_before=0, planned=plan
    )

    told = measurements.list_events_after(sessions, job_id, seq=0).events[2:]
    assert [one.kind for one in told] == ["plan", "progress"]
    assert told[0].data == {
        "attempt": 1,
        "expected_s": 1.5,
        "host": None,
        "notes": ["one kind of layer"],
        "runs": [
            {
                "num_layers": 1,
                "micro_batch_size": 1,
                "sequence_length": 8,
                "output_tokens": 0,
                "why": "the first layer",
                "expected_s": 1.5,
            },
        ],
    }


def test_a_late_result_brings_the_samples_that_nobody_took(sessions: Sessions) -> None:
    """While the job was queued again no report was taken; its result is, and with it what was read,
    before the last event.
    """
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    attempts.report(sessions, attempt, progress=None, samples=READINGS[:1], samples_before=0)
    give_back(sessions, job_id)
    assert not attempts.report(
        sessions, attempt, progress=None, samples=READINGS[1:], samples_before=1
    )

    assert outcomes.succeed(
        sessions, attempt, a_result(), unwritten=Unwritten(samples=READINGS[1:], before=1)
    )

    assert sizes(sessions, job_id) == [10, 20, 30]
    assert kinds(sessions, job_id) == [
        "status",
        "status",
        "sample",
        "status",
        "sample",
        "sample",
        "status",
    ]


def test_a_fenced_result_brings_nothing(sessions: Sessions) -> None:
    """Once a later attempt has begun, neither the result nor the samples of the earlier one are
    taken.
    """
    job_id = submitted(sessions)
    zombie = claimed(sessions, job_id)
    give_back(sessions, job_id)
    attempts.claim(
        sessions, JobPayload(job_id=job_id, attempt=1), worker="v", lease_s=30, deadline_s=600
    )

    assert not outcomes.succeed(sessions, zombie, a_result(), unwritten=Unwritten(samples=READINGS))

    assert sizes(sessions, job_id) == []


def test_samples_before_a_refusal_are_kept(sessions: Sessions) -> None:
    """What was read before a probe gave up says why it did."""
    job_id = submitted(sessions)
    attempt = claimed(sessions, job_id)
    refusal = ProbeFailure(kind=FailureKind.DOES_NOT_FIT_HOST, message="no room")

    assert outcomes.refuse(sessions, attempt, refusal, unwritten=Unwritten(samples=READINGS))

    assert measurements.read(sessions, job_id).status is Status.FAILED
    assert sizes(sessions, job_id) == [10, 20, 30]

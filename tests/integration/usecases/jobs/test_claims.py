"""Claims against a real database: one winner of each."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from uuid import UUID

import pytest
from sqlalchemy import text

from service.jobs.contract import JobPayload, ProbeDevice, ProtocolError
from service.jobs.notify import skip_notification
from service.jobs.states import QUEUE_LIMIT_S, Status
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, unreadable, workers
from service.usecases.jobs.status_changes import make_problem
from service.usecases.jobs.workers import WorkerInfo
from tests.integration.usecases.jobs.builders import (
    DEADLINE_S,
    TERMS,
    Sessions,
    claimed,
    end_lease,
    requeue,
    submitted,
)
from tests.job_builders import a_request


def test_of_many_claims_one_wins(sessions: Sessions) -> None:
    """Twenty workers that heard the same ring make one attempt."""
    payload = JobPayload(job_id=submitted(sessions), attempt=0)

    with ThreadPoolExecutor(8) as pool:
        won = list(
            pool.map(
                lambda number: attempts.claim(sessions, payload, worker=f"w{number}", **TERMS),
                range(20),
            ),
        )

    assert [attempt.number for attempt in won if attempt is not None] == [1]


def test_a_stale_ring_claims_nothing(sessions: Sessions) -> None:
    """A ring for attempt 0 that arrives after attempt 1 was lost is not taken for attempt 2's."""
    job_id = submitted(sessions)
    claimed(sessions, job_id)
    end_lease(sessions, job_id)
    requeue(sessions)

    assert (
        attempts.claim(sessions, JobPayload(job_id=job_id, attempt=0), worker="late", **TERMS)
        is None
    )
    assert claimed(sessions, job_id, expected=1).number == 2


def test_a_claim_carries_what_was_asked(sessions: Sessions) -> None:
    """The request comes back from the row as it was, and the worker shows in the job."""
    job_id = submitted(sessions)

    attempt = claimed(sessions, job_id, worker="w7")

    assert attempt.request == a_request()
    assert attempt.key == "k"
    job = measurements.read(sessions, job_id)
    assert (job.status, job.attempt, job.worker) == (Status.RUNNING, 1, "w7")


def test_time_in_the_queue_is_no_running_time(sessions: Sessions) -> None:
    """An attempt has its whole deadline from its claim, however long the job waited; back in the
    queue it waits as long.
    """
    job_id = submitted(sessions)
    with sessions.begin() as session:
        waited = text(
            "UPDATE measurements SET created_at = created_at - interval '2 days' WHERE id = :id"
        )
        session.execute(waited, {"id": job_id})

    claimed(sessions, job_id)
    running = measurements.read(sessions, job_id)
    attempts.release(sessions, job_id, attempt=1, reason="lost")
    queued = measurements.read(sessions, job_id)

    assert running.started_at is not None
    assert running.deadline_at - running.started_at == timedelta(seconds=DEADLINE_S)
    assert queued.deadline_at - running.started_at > timedelta(seconds=QUEUE_LIMIT_S)


def ask_in_later_words(sessions: Sessions, job_id: UUID) -> None:
    """Let a job ask for something that this version does not know."""
    change = text(
        """UPDATE measurements SET request = request || '{"surprise": 1}' WHERE id = :id"""
    )
    with sessions.begin() as session:
        session.execute(change, {"id": job_id})


def test_a_job_of_a_later_version_is_left_to_its_workers(sessions: Sessions) -> None:
    """A worker goes on with what it can read, says once what it left, and claims nothing of it."""
    later, readable = submitted(sessions), submitted(sessions)
    ask_in_later_words(sessions, later)
    left: set[UUID] = set()

    found = attempts.find_queued(sessions, device=ProbeDevice.CPU, unreadable=left)
    with pytest.raises(ProtocolError, match="surprise"):
        attempts.claim(sessions, JobPayload(job_id=later, attempt=0), worker="w", **TERMS)
    job = measurements.read(sessions, later)

    assert (found, left) == (JobPayload(job_id=readable, attempt=0), {later})
    assert (job.status, job.attempt, job.error) == (Status.QUEUED, 0, None)


def test_a_job_that_left_the_queue_is_forgotten(sessions: Sessions) -> None:
    """What a worker cannot read it remembers for as long as it is asked about."""
    later = submitted(sessions)
    ask_in_later_words(sessions, later)
    left: set[UUID] = set()
    attempts.find_queued(sessions, device=ProbeDevice.CPU, unreadable=left)
    measurements.cancel(sessions, later)

    attempts.find_queued(sessions, device=ProbeDevice.CPU, unreadable=left)

    assert left == set()


@pytest.mark.parametrize(
    ("versions", "status"),
    [
        ([{"jobs": "2"}], Status.QUEUED),
        ([{"jobs": "2"}, {"python": "3.11"}], Status.FAILED),
        ([], Status.FAILED),
    ],
)
def test_what_an_earlier_worker_could_not_read_comes_back(
    sessions: Sessions, versions: list[dict[str, str]], status: Status
) -> None:
    """Once all of its device are of this version; not while one is there that would end it again,
    nor while nobody would run it.
    """
    job_id = submitted(sessions)
    end_unread(sessions, job_id)
    register_workers(sessions, versions)

    requeue(sessions)
    job = measurements.read(sessions, job_id)

    assert job.status is status
    assert (job.finished_at is None) is (status is Status.QUEUED)
    assert job.max_attempts - job.attempt == (3 if status is Status.QUEUED else 2)


def test_what_has_to_stay_holds_up_nothing_behind_it(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that this version cannot read either may be more than one look takes."""
    monkeypatch.setattr(unreadable, "BATCH", 1)
    later, readable = submitted(sessions), submitted(sessions)
    for job_id in (later, readable):
        end_unread(sessions, job_id)
    ask_in_later_words(sessions, later)
    register_workers(sessions, [{"jobs": "2"}])

    requeue(sessions)

    assert measurements.read(sessions, later).status is Status.FAILED
    assert measurements.read(sessions, readable).status is Status.QUEUED


def end_unread(sessions: Sessions, job_id: UUID) -> None:
    """End a job as a worker of an earlier version does that cannot read it."""
    attempt = claimed(sessions, job_id, worker="earlier")
    problem = make_problem("unreadable-request", "This version cannot read the request", "x")
    attempts.settle(sessions, attempt, status=Status.FAILED, error=problem)


def register_workers(sessions: Sessions, versions: list[dict[str, str]]) -> None:
    """Register live workers that name what they know."""
    for number, known in enumerate(versions):
        device = {"device": "cpu", "name": "CPU"}
        workers.register(
            sessions,
            WorkerInfo(name=f"w{number}", host="h", pid=1, devices=[device], versions=known),
        )


def test_the_next_job_is_the_oldest_of_the_highest_priority(sessions: Sessions) -> None:
    """A poll finds what the notifier would have named first."""
    first = submitted(sessions)
    submitted(sessions)

    found = attempts.find_queued(sessions, device=ProbeDevice.CPU)

    assert found == JobPayload(job_id=first, attempt=0)
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA) is None


def test_a_gpu_takes_only_jobs_that_it_can_answer(sessions: Sessions) -> None:
    """A job for an H200 waits for one; a job for any GPU, or one that a processor runs, does not
    wait.
    """

    def asked(device: ProbeDevice, gpu: str | None) -> UUID:
        request = a_request(device=device, gpu=gpu)
        return measurements.submit(
            sessions, request, key="k", settings=Settings(), notify=skip_notification
        ).id

    named, traced = (
        asked(ProbeDevice.CUDA, "H200-SXM5-141GB"),
        asked(ProbeDevice.TRACE, "H200-SXM5-141GB"),
    )

    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA, gpu="A10-24GB") is None
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA) is None
    assert attempts.find_queued(
        sessions, device=ProbeDevice.CUDA, gpu="H200-SXM5-141GB"
    ) == JobPayload(job_id=named, attempt=0)
    assert attempts.find_queued(sessions, device=ProbeDevice.TRACE) == JobPayload(
        job_id=traced, attempt=0
    )
    unnamed = asked(ProbeDevice.CUDA, None)
    assert attempts.find_queued(sessions, device=ProbeDevice.CUDA, gpu="A10-24GB") == JobPayload(
        job_id=unnamed, attempt=0
    )

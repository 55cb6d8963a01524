"""Workers as the list shows them, against a real database."""

from uuid import UUID

from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.jobs.contract import JobPayload
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.usecases.jobs import attempts, measurements, workers
from service.usecases.jobs.workers import WorkerInfo, WorkerState, WorkerSummary
from tests.job_builders import a_request

Sessions = sessionmaker[Session]
GONE_AFTER_S = 30.0


def an_info(name: str = "w1") -> WorkerInfo:
    """Return what a worker says of itself."""
    return WorkerInfo(
        name=name,
        host="h",
        pid=7,
        devices=[{"device": "cpu", "num_cores": 2}],
        versions={"torch": "2.13.0"},
    )


def seen(sessions: Sessions) -> list[WorkerSummary]:
    """Return the list."""
    return workers.list_workers(sessions, gone_after_s=GONE_AFTER_S)


def last_heartbeat_was(sessions: Sessions, name: str, seconds: float) -> None:
    """Move a worker's last heartbeat into the past."""
    with sessions.begin() as session:
        statement = text(
            "UPDATE workers SET last_heartbeat = now() - make_interval(secs => :s) WHERE name = "
            ":name"
        )
        session.execute(statement, {"s": seconds, "name": name})


def running_job(sessions: Sessions, worker: str) -> UUID:
    """Return a job that a worker has claimed."""
    job_id = measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    ).id
    assert (
        attempts.claim(
            sessions,
            JobPayload(job_id=job_id, attempt=0),
            worker=worker,
            lease_s=30,
            deadline_s=600,
        )
        is not None
    )
    return job_id


def test_a_worker_shows_its_devices_and_versions(sessions: Sessions) -> None:
    """What it says of itself is what the list says."""
    workers.register(sessions, an_info())

    (worker,) = seen(sessions)

    assert worker.state is WorkerState.IDLE
    assert (worker.name, worker.host, worker.pid) == ("w1", "h", 7)
    assert worker.devices == [{"device": "cpu", "num_cores": 2}]
    assert worker.versions == {"torch": "2.13.0"}


def test_a_claim_shows_the_job_at_once(sessions: Sessions) -> None:
    """No heartbeat is needed to see what a worker does; with the job's end it is idle again."""
    workers.register(sessions, an_info())
    job_id = running_job(sessions, "w1")

    busy = seen(sessions)[0]
    workers.record_heartbeat(sessions, an_info(), is_busy=True)
    still = seen(sessions)[0]
    workers.record_heartbeat(sessions, an_info(), is_busy=False)
    idle = seen(sessions)[0]

    assert (busy.state, busy.current_job_id) == (WorkerState.BUSY, job_id)
    assert (still.state, still.current_job_id) == (WorkerState.BUSY, job_id)
    assert (idle.state, idle.current_job_id) == (WorkerState.IDLE, None)


def test_a_worker_without_a_heartbeat_for_a_lease_is_gone(sessions: Sessions) -> None:
    """A killed worker cannot say so, and a stopped one has said it."""
    for name in ("killed", "stopped", "alive"):
        workers.register(sessions, an_info(name))
    workers.mark_stopped(sessions, "stopped")
    for name in ("killed", "stopped"):
        last_heartbeat_was(sessions, name, GONE_AFTER_S + 1)

    states = {worker.name: worker.state for worker in seen(sessions)}

    assert states == {
        "killed": WorkerState.GONE,
        "stopped": WorkerState.STOPPED,
        "alive": WorkerState.IDLE,
    }


def test_a_worker_that_is_gone_has_no_job(sessions: Sessions) -> None:
    """What it was running is about to be somebody else's."""
    workers.register(sessions, an_info())
    running_job(sessions, "w1")
    last_heartbeat_was(sessions, "w1", GONE_AFTER_S + 1)

    (worker,) = seen(sessions)

    assert (worker.state, worker.current_job_id) == (WorkerState.GONE, None)


def test_old_workers_are_forgotten_and_come_back_with_a_heartbeat(sessions: Sessions) -> None:
    """The list does not grow for ever, and nobody who lives is lost by it."""
    workers.register(sessions, an_info())
    last_heartbeat_was(sessions, "w1", workers.FORGET_AFTER_S + 1)

    workers.forget_old(sessions)
    forgotten = seen(sessions)
    workers.record_heartbeat(sessions, an_info(), is_busy=False)

    assert forgotten == []
    assert [worker.name for worker in seen(sessions)] == ["w1"]


def test_what_an_idle_worker_saw_stays_while_it_works(sessions: Sessions) -> None:
    """A heartbeat with a look at the GPU is kept; one without, as during a job, takes nothing
    away.
    """
    workers.register(sessions, an_info())
    workers.record_heartbeat(
        sessions, an_info(), is_busy=False, observed={"used_bytes": 7, "foreign_processes": 1}
    )
    workers.record_heartbeat(sessions, an_info(), is_busy=True)

    (found,) = seen(sessions)

    assert found.observed == {"used_bytes": 7, "foreign_processes": 1}
    assert 0 <= found.heartbeat_age_s < 60

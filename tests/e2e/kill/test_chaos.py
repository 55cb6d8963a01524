"""A small storm with a fixed seed: whatever dies, freezes or goes away when, nothing is lost,
nothing twice, nothing wrong.
"""

import subprocess
from contextlib import ExitStack

import pytest
from sqlalchemy import text
from sqlalchemy.orm import Session, sessionmaker

from service.db.session import make_engine, make_sessions
from service.embedded.children import Child
from service.jobs.contract import JobPayload, Sample
from service.jobs.notify import skip_notification
from service.runtime.settings import Settings
from service.runtime.variables import parse_psycopg_url
from service.usecases.jobs import attempts, measurements, outcomes
from service.usecases.jobs.attempts import Unwritten
from tests.chaos import expected
from tests.chaos.client import ClientJob, new_job
from tests.chaos.invariants import count_executions, find_violations
from tests.chaos.rig import run_rig
from tests.chaos.storm import SETTINGS, run_storm
from tests.job_builders import a_request, a_result
from tests.running.folders import make_folder
from tests.running.forked import ForkedProgram

SEED = 3
NUM_JOBS = 10
LEASE_S = 2.0
Sessions = sessionmaker[Session]


def launch_fork(child: Child) -> "subprocess.Popen[bytes]":
    """Start a part in a session of its own, with its modules loaded."""
    assert isinstance(child.program, tuple)
    _python, _option, module, *arguments = child.program
    with child.log_file.open("ab") as output:
        return ForkedProgram(
            module,
            *arguments,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(child.environment),
            start_new_session=True,
            pass_fds=child.pass_fds,
        )


def test_nothing_is_lost_nothing_twice_and_nothing_wrong() -> None:
    """Workers, probes, APIs, the loop, Redis and Postgres are struck at random; every job ends
    right, and once.
    """
    settings = {**SETTINGS, "HEADROOM_LEASE_S": f"{LEASE_S:g}"}
    with ExitStack() as stack:
        # The path of a socket holds 107 bytes.
        root = stack.enter_context(make_folder())
        rig = stack.enter_context(
            run_rig(root, settings=settings, num_workers=2, launch=launch_fork)
        )
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", rig.database_url), application_name="headroom-test"
        )
        stack.callback(engine.dispose)
        sessions = make_sessions(engine)

        happened = run_storm(
            rig, sessions, seed=SEED, num_jobs=NUM_JOBS, lease_s=LEASE_S, show=lambda *_: None
        )
        found = [*happened.violations, *find_violations(sessions, happened.jobs)]
        executions = count_executions(sessions)

    assert found == []
    # A job that is cancelled while it waits never begins.
    assert executions >= sum(job.cancelled is None for job in happened.jobs)
    assert len({struck.what for struck in happened.strikes}) >= 3, (
        "hardly anything was struck, so this tested nothing"
    )


def done(sessions: Sessions, number: int) -> ClientJob:
    """Return a job that went as the storm's jobs should."""
    stored = measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    )
    attempt = attempts.claim(
        sessions, JobPayload(job_id=stored.id, attempt=0), worker="w", lease_s=30, deadline_s=600
    )
    assert attempt is not None
    readings = tuple(
        Sample(t_s=0.0, kind="process_rss", bytes=expected.sample_bytes(number, index))
        for index in range(expected.NUM_SAMPLES)
    )
    result = a_result(allocated_bytes=expected.allocated_bytes(number))
    assert outcomes.succeed(sessions, attempt, result, unwritten=Unwritten(samples=readings))
    asked = new_job(number)
    asked.id = str(stored.id)
    return asked


def test_a_storm_that_went_well_has_no_violations(sessions: Sessions) -> None:
    """The check itself finds nothing where nothing is wrong."""
    assert find_violations(sessions, [done(sessions, number) for number in (1, 2)]) == []


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("DELETE FROM measurements", "is lost"),
        ("DELETE FROM measurement_results", "has 0 results"),
        (
            "UPDATE measurement_results SET peaks = jsonb_set(peaks, '{allocated_bytes}', '7')",
            "another job's or nobody's",
        ),
        ("UPDATE measurement_results SET attempt = 2", "its result is of attempt 2"),
        ("UPDATE measurements SET state = 'cancelled'", "it is cancelled"),
        ("DELETE FROM measurement_events WHERE seq = 3", "its events are"),
        (
            (
                "UPDATE measurement_events SET data = data || "
                '\'{"status": "succeeded"}\' WHERE seq = 2'
            ),
            "its ends are",
        ),
        ("UPDATE measurements SET attempt = 2", "attempts [1] began, 2 were counted"),
        ("DELETE FROM measurement_samples WHERE seq = 1", "kept samples [0, 2] of 3"),
        ("UPDATE measurement_samples SET bytes = bytes + 1 WHERE seq = 1", "sample 1 of attempt 1"),
    ],
)
def test_every_violation_is_seen(sessions: Sessions, damage: str, words: str) -> None:
    """What must never happen is done by hand, and the check says so."""
    asked = done(sessions, 1)
    with sessions.begin() as session:
        session.execute(text(damage.replace(":", "\\:")))

    assert words in " ".join(find_violations(sessions, [asked]))


def test_a_job_that_nobody_asked_for_is_seen(sessions: Sessions) -> None:
    """A request that was repeated and made two jobs would leave one that no client knows."""
    asked = done(sessions, 1)
    done(sessions, 2)

    assert "made twice" in " ".join(find_violations(sessions, [asked]))


def test_a_watcher_that_missed_an_event_is_seen(sessions: Sessions) -> None:
    """What a client saw is held against what happened."""
    asked = done(sessions, 1)
    asked.seen = [1, 2, 4]

    assert "its watcher saw events [1, 2, 4]" in " ".join(find_violations(sessions, [asked]))

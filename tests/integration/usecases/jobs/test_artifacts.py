"""A file that a probe keeps: stored once, with the result of the attempt that holds the job, and
read back as it was.
"""

import gzip
import os
import pickle
import sys
from dataclasses import replace
from uuid import UUID, uuid4

import pytest
from sqlalchemy import func, select
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import MeasurementNotFoundError, NotFoundError
from service.db.tables.artifacts import ArtifactRow
from service.jobs.artifacts import ArtifactName
from service.jobs.contract import JobPayload, MeasureRequest, ProbeDevice
from service.jobs.notify import skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.usecases.jobs import artifacts, attempts, measurements, outcomes
from service.usecases.jobs.attempts import Attempt
from service.usecases.stored import MeasurementFilter, PageRequest
from tests.integration.usecases.learning.builders import a_request as a_real_request
from tests.integration.usecases.learning.builders import a_result as a_real_result
from tests.integration.usecases.learning.builders import measure
from tests.job_builders import a_request, a_result, an_artifact
from worker.context import WorkerContext
from worker.tasks import run_probe

Sessions = sessionmaker[Session]
PROBE = (sys.executable, "-m", "tests.fake_probe")
SNAPSHOT = ArtifactName.MEMORY_SNAPSHOT


def claimed(
    sessions: Sessions, request: MeasureRequest | None = None, *, expected: int = 0
) -> Attempt:
    """Return a running attempt at a job that was asked for."""
    job_id = measurements.submit(
        sessions, request or a_request(), key="k", settings=Settings(), notify=skip_notification
    ).id
    attempt = attempts.claim(
        sessions,
        JobPayload(job_id=job_id, attempt=expected),
        worker="w",
        lease_s=30,
        deadline_s=600,
    )
    assert attempt is not None
    return attempt


def ran(sessions: Sessions, *script: dict[str, object]) -> UUID:
    """Let a worker run a probe that plays a script and was asked for a snapshot."""
    request = a_request(device=ProbeDevice.TRACE, script=list(script), artifacts=(SNAPSHOT,))
    attempt = claimed(sessions, request)
    run_probe(
        WorkerContext(settings=Settings(), name="w", device=ProbeDevice.TRACE, probe_command=PROBE),
        sessions,
        attempt,
    )
    return attempt.job_id


def num_stored(sessions: Sessions) -> int:
    """Return how many artifacts there are."""
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(ArtifactRow)).one()


def test_what_a_probe_keeps_is_there(sessions: Sessions) -> None:
    """Through the worker's file into the database, listed with what it is, and back out of it
    unchanged.
    """
    job_id = ran(sessions, {"keep": "a history"})
    found = measurements.read(sessions, job_id)
    (listed,) = found.artifacts
    packed = b"".join(
        artifacts.iter_pieces(sessions, job_id, artifacts.read(sessions, job_id, "memory_snapshot"))
    )
    (line,) = measurements.list_page(sessions, PageRequest(limit=5), MeasurementFilter()).items

    assert found.status is Status.SUCCEEDED
    assert pickle.loads(gzip.decompress(packed)) == "a history"  # noqa: S301 - what the script said
    assert (listed.bytes, listed.packed_bytes) == (len(gzip.decompress(packed)), len(packed))
    assert line.artifacts == found.artifacts


@pytest.mark.parametrize(
    ("script", "problem"),
    [
        ([{"keep": "a history"}, {"misreport": 5}], "and there are"),
        ([{"keep": "a history"}, {"exit": 3}], "ended with status 3"),
    ],
)
def test_a_probe_that_breaks_off_leaves_nothing(
    sessions: Sessions, script: list[dict[str, object]], problem: str
) -> None:
    """The attempt is lost and says why; no half of a file is stored."""
    job_id = ran(sessions, *script)
    story = measurements.list_events_after(sessions, job_id, seq=0).events

    assert measurements.read(sessions, job_id).status is Status.QUEUED
    assert problem in str(story[-1].data["reason"])
    assert num_stored(sessions) == 0


def test_a_refusal_leaves_nothing(sessions: Sessions) -> None:
    """A file belongs to a result."""
    job_id = ran(sessions, {"keep": "a history"}, {"fail": "mamba has no attention"})

    assert measurements.read(sessions, job_id).status is Status.FAILED
    assert num_stored(sessions) == 0


def test_only_the_attempt_that_holds_the_job_stores(sessions: Sessions) -> None:
    """A worker that was thought dead comes late; whoever writes twice because an answer was lost
    has written once.
    """
    first = claimed(sessions)
    attempts.release(sessions, first.job_id, attempt=first.number, reason="gone")
    second = attempts.claim(
        sessions, JobPayload(job_id=first.job_id, attempt=1), worker="v", lease_s=30, deadline_s=600
    )
    assert second is not None
    late = outcomes.succeed(sessions, first, a_result(), artifacts=[an_artifact(b"late")])
    taken = [
        outcomes.succeed(sessions, second, a_result(), artifacts=[an_artifact(b"right")])
        for _ in range(2)
    ]
    (listed,) = measurements.read(sessions, first.job_id).artifacts

    assert (late, taken) == (False, [True, True])
    assert listed.sha256 == an_artifact(b"right").sha256
    assert num_stored(sessions) == 1


def test_a_large_one_is_read_piece_by_piece(sessions: Sessions) -> None:
    """No piece is larger than a megabyte, and together they are what was stored."""
    content = os.urandom(2 * artifacts.PIECE_BYTES + 5)
    request = a_real_request()
    job_id = measure(sessions, request, a_real_result(request), artifacts=[an_artifact(content)]).id
    found = list(
        artifacts.iter_pieces(sessions, job_id, artifacts.read(sessions, job_id, "memory_snapshot"))
    )

    assert [len(piece) <= artifacts.PIECE_BYTES for piece in found] == [True, True, True]
    assert gzip.decompress(b"".join(found)) == content


def test_what_is_not_there_is_said(sessions: Sessions) -> None:
    """No measurement, no such file, or one that was deleted while it was read."""
    request = a_real_request()
    job_id = measure(sessions, request, a_real_result(request), artifacts=[an_artifact()]).id
    known = artifacts.read(sessions, job_id, "memory_snapshot")

    with pytest.raises(MeasurementNotFoundError):
        artifacts.read(sessions, uuid4(), "memory_snapshot")
    with pytest.raises(NotFoundError, match="it has memory_snapshot"):
        artifacts.read(sessions, job_id, "core")
    with pytest.raises(NotFoundError, match="deleted while"):
        list(artifacts.iter_pieces(sessions, job_id, replace(known, name="gone")))

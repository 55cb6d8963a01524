"""The connection is lost at COMMIT: nobody knows whether it was done, so it is read again, and
nothing is done twice.
"""

import select
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit
from uuid import UUID

import pytest
from sqlalchemy.engine import make_url
from sqlalchemy.orm import Session, sessionmaker

from service.base.errors import UnavailableError
from service.db.session import make_engine, make_sessions
from service.embedded.datadir import POSTGRES_SOCKET
from service.jobs.contract import JobPayload, Progress, Sample
from service.jobs.notify import skip_notification
from service.jobs.states import Status
from service.runtime.settings import Settings
from service.runtime.variables import parse_psycopg_url
from service.usecases.idempotency import RequestKey
from service.usecases.jobs import attempts, measurements, outcomes, samples
from service.usecases.jobs.attempts import Attempt
from service.usecases.stored import PageRequest
from tests.job_builders import a_request, a_result
from tests.job_counts import count_by_status
from worker.retry import retry_while_unavailable

Sessions = sessionmaker[Session]
CHUNK = 1 << 16


@dataclass(slots=True)
class Cutter:
    """A proxy before Postgres that cuts the connection at the next COMMIT, before it arrives or
    before its answer does.
    """

    server: str
    listener: socket.socket
    cuts: list[str] = field(default_factory=list)
    """What to do at coming commits: ``lost`` is never done, ``done`` is done and not answered."""
    num_cuts: int = 0

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                threading.Thread(target=self._carry, args=(client,), daemon=True).start()

    def _carry(self, client: socket.socket) -> None:
        with client, socket.socket(socket.AF_UNIX) as server, suppress(OSError):
            server.connect(self.server)
            other = {client: server, server: client}
            while True:
                for source in select.select(other, [], [])[0]:
                    chunk = source.recv(CHUNK)
                    if source is client and b"COMMIT" in chunk and self.cuts:
                        self.num_cuts += 1
                        if self.cuts.pop(0) == "done":
                            server.sendall(chunk)
                            server.recv(CHUNK)
                        return
                    if not chunk:
                        return
                    other[source].sendall(chunk)


@pytest.fixture
def cutter(database_url: str) -> Iterator[Cutter]:
    """Return a proxy before this test's Postgres."""
    (directory,) = parse_qs(urlsplit(database_url).query)["host"]
    with socket.create_server(("127.0.0.1", 0)) as listener:
        cutter = Cutter(server=f"{directory}/{POSTGRES_SOCKET}", listener=listener)
        threading.Thread(target=cutter.serve, daemon=True).start()
        yield cutter
        listener.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def through(cutter: Cutter, database_url: str) -> Iterator[Sessions]:
    """Return sessions whose connections the proxy may cut."""
    port = cutter.listener.getsockname()[1]
    url = (
        make_url(database_url)
        .set(host="127.0.0.1", port=port, query={})
        .render_as_string(hide_password=False)
    )
    with ExitStack() as stack:
        engine = make_engine(
            parse_psycopg_url("DATABASE_URL", url), application_name="headroom-cut", pool_size=2
        )
        stack.callback(engine.dispose)
        yield make_sessions(engine)


def submitted(sessions: Sessions) -> UUID:
    """Return the id of a queued job."""
    return measurements.submit(
        sessions, a_request(), key="k", settings=Settings(), notify=skip_notification
    ).id


def claimed(sessions: Sessions) -> Attempt:
    """Return the first attempt at a fresh job."""
    payload = JobPayload(job_id=submitted(sessions), attempt=0)
    attempt = attempts.claim(sessions, payload, worker="w", lease_s=30, deadline_s=600)
    assert attempt is not None
    return attempt


def statuses(sessions: Sessions, job_id: UUID) -> list[object]:
    """Return what the events tell."""
    events = measurements.list_events_after(sessions, job_id, seq=0).events
    return [event.data["status"] for event in events if event.kind == "status"]


@pytest.mark.parametrize("fate", ["lost", "done"])
def test_a_result_is_stored_once(
    sessions: Sessions, through: Sessions, cutter: Cutter, fate: str
) -> None:
    """The worker tries again, and finds its own result or stores it."""
    attempt = claimed(sessions)
    cutter.cuts = [fate]

    stored = retry_while_unavailable(
        lambda: outcomes.succeed(through, attempt, a_result()), for_s=20
    )

    assert stored
    assert cutter.num_cuts == 1
    assert statuses(sessions, attempt.job_id) == ["queued", "running", "succeeded"]


@pytest.mark.parametrize("fate", ["lost", "done"])
def test_a_submission_that_is_repeated_is_one_job(
    sessions: Sessions, through: Sessions, cutter: Cutter, fate: str
) -> None:
    """The client hears that the service is away, asks again with its key, and there is one job."""
    key = RequestKey(key="one", route="POST /v1/measurements", body=b"{}")

    def submit() -> UUID:
        settings = Settings()
        return measurements.submit(
            through,
            a_request(),
            key="k",
            settings=settings,
            notify=skip_notification,
            idempotency=key,
        ).id

    cutter.cuts = [fate]
    with pytest.raises(UnavailableError):
        submit()
    job_id = submit()

    assert cutter.num_cuts == 1
    assert submit() == job_id
    assert sum(count_by_status(sessions).values()) == 1


@pytest.mark.parametrize(("fate", "number"), [("lost", 1), ("done", 2)])
def test_a_claim_that_nobody_knows_of_is_given_back(
    sessions: Sessions, through: Sessions, cutter: Cutter, fate: str, number: int
) -> None:
    """The job's process ends without an answer, and its worker releases the attempt that may have
    begun: the next one begins.
    """
    job_id = submitted(sessions)
    cutter.cuts = [fate]
    with pytest.raises(UnavailableError):
        attempts.claim(
            through, JobPayload(job_id=job_id, attempt=0), worker="w", lease_s=30, deadline_s=600
        )

    released = attempts.release(through, job_id, attempt=1, reason="the process ended")
    payload = JobPayload(job_id=job_id, attempt=measurements.read(sessions, job_id).attempt)
    again = attempts.claim(through, payload, worker="w", lease_s=30, deadline_s=600)

    assert released is (Status.QUEUED if fate == "done" else None)
    assert again is not None
    assert again.number == number


@pytest.mark.parametrize("fate", ["lost", "done"])
def test_samples_are_told_once(
    sessions: Sessions, through: Sessions, cutter: Cutter, fate: str
) -> None:
    """A report whose acknowledgement was lost comes again, and who watches sees each sample
    once.
    """
    attempt = claimed(sessions)
    line = Progress(phase="layer 1 of 2", done=1, total=2, fraction=0.5)
    readings = [Sample(t_s=0.1 * number, kind="process_rss", bytes=number) for number in range(3)]
    cutter.cuts = [fate]

    retry_while_unavailable(
        lambda: attempts.report(
            through, attempt, progress=line, samples=readings, samples_before=0
        ),
        for_s=20,
    )

    told = [
        event.data["bytes"]
        for event in measurements.list_events_after(sessions, attempt.job_id, seq=0).events
        if event.kind == "sample"
    ]
    kept = [
        sample.bytes for sample in samples.list_page(sessions, attempt.job_id, PageRequest()).items
    ]
    assert cutter.num_cuts == 1
    assert told == kept == [0, 1, 2]

"""Clients of the API that retry as a careful user does.

They submit with a key, repeat a request that was not answered, and follow events to their end.
"""

import random
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import httpx

from service.jobs.states import Status
from tests.chaos import expected
from tests.chaos.network import CLIENTS

TIMEOUT_S = 1200.0
_PAUSE_S = 0.1
_TIMEOUT = httpx.Timeout(10.0)
_SILENCE = httpx.Timeout(5.0, read=20.0)
_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Cancellation:
    """What DELETE answered, and when."""

    status: Status
    attempt: int
    answered_at: datetime


@dataclass(slots=True, kw_only=True)
class ClientJob:
    """A job as its client sees it.

    ``violations`` are answers that no client should get.
    """

    number: int
    key: str
    work_s: float
    id: str = ""
    tries: int = 0
    cancelled: Cancellation | None = None
    """Of a job that was over when DELETE came, None."""
    seen: list[int] = field(default_factory=list)
    """The ids of the events that a watcher received, in order."""
    violations: list[str] = field(default_factory=list)


class Refused(Exception):  # noqa: N818 - an answer, told as a violation
    """The service gave an answer that it never should."""


def make_client(url: str) -> httpx.Client:
    """Make a client; each thread has its own.

    Of several URLs with commas between them each request takes any, as behind a balancer that does
    not know which of its servers answer.
    """
    first, *others = url.split(",")
    if not others:
        return httpx.Client(base_url=first, timeout=_TIMEOUT)
    return httpx.Client(
        base_url=first, timeout=_TIMEOUT, transport=_AnyServer((first, *others)), trust_env=False
    )


class _AnyServer(httpx.HTTPTransport):
    """Transport that sends each request to any of several servers."""

    def __init__(self, urls: Sequence[str]) -> None:
        super().__init__(local_address=CLIENTS)
        self._urls = [httpx.URL(url) for url in urls]

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        url = random.choice(self._urls)  # noqa: S311 - no secret
        request.url = request.url.copy_with(host=url.host, port=url.port)
        request.headers["host"] = url.netloc.decode()
        return super().handle_request(request)


def submit(http: httpx.Client, job: ClientJob, body: dict[str, object] | None = None) -> None:
    """Submit ``job`` until it is accepted.

    The key makes it one job however often it is submitted: of one that was accepted before,
    another job is a violation.
    """
    payload = body or expected.build_request(job.number, work_s=job.work_s)

    def ask() -> httpx.Response:
        job.tries += 1
        return http.post("/v1/measurements", json=payload, headers={"idempotency-key": job.key})

    accepted = str(_retry_until_accepted(ask).json()["id"])
    if job.id and accepted != job.id:
        job.violations.append(
            f"job {job.number}: its key brought {job.id} first, and then {accepted}"
        )
    job.id = job.id or accepted


def cancel(http: httpx.Client, job: ClientJob) -> None:
    """Cancel a job, unless it is over; twice is once.

    A job that is refused although it goes on is a violation.
    """
    answer = _retry_until_accepted(
        lambda: http.delete(f"/v1/measurements/{job.id}"), also=(httpx.codes.CONFLICT,)
    )
    if answer.is_success:
        stored = answer.json()
        job.cancelled = Cancellation(
            status=Status(stored["status"]),
            attempt=int(stored["attempt"]),
            answered_at=datetime.now(UTC),
        )
        return
    stored = _retry_until_accepted(lambda: http.get(f"/v1/measurements/{job.id}")).json()
    status = Status(stored["status"])
    if not status.is_terminal:
        job.violations.append(f"job {job.number}: DELETE was refused while it was {status}")


def watch(http: httpx.Client, job: ClientJob) -> None:
    """Follow a job's events to the last one.

    It reconnects whenever a connection breaks.
    """
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        headers = {"last-event-id": str(job.seen[-1])} if job.seen else {}
        try:
            with http.stream(
                "GET", f"/v1/measurements/{job.id}/events", headers=headers, timeout=_SILENCE
            ) as stream:
                if stream.status_code == httpx.codes.NO_CONTENT:
                    return
                if not stream.is_success:
                    _check(stream.status_code)
                else:
                    job.seen += [
                        int(line[len("id: ") :])
                        for line in stream.iter_lines()
                        if line.startswith("id: ")
                    ]
        except httpx.TransportError:
            pass
        time.sleep(_PAUSE_S)
    raise Refused(f"the events of job {job.number} did not end within {TIMEOUT_S:g} s")


def new_job(number: int, *, work_s: float = 0.0) -> ClientJob:
    """Make a job that is not submitted yet."""
    return ClientJob(number=number, key=uuid.uuid4().hex, work_s=work_s)


def start_thread(
    work: Callable[[httpx.Client, ClientJob], None], url: str, job: ClientJob
) -> threading.Thread:
    """Run ``work`` for one job in a thread.

    What it raises becomes a violation of the job.
    """

    def run() -> None:
        try:
            with make_client(url) as http:
                work(http, job)
        except (Refused, httpx.HTTPError) as error:
            job.violations.append(f"job {job.number}: {work.__name__}: {error!r}")

    thread = threading.Thread(target=run, daemon=True, name=f"{work.__name__}-{job.number}")
    thread.start()
    return thread


def _retry_until_accepted(
    ask: Callable[[], httpx.Response], *, also: tuple[int, ...] = ()
) -> httpx.Response:
    end = time.monotonic() + TIMEOUT_S
    while time.monotonic() < end:
        try:
            answer = ask()
        except httpx.TransportError:
            time.sleep(_PAUSE_S)
            continue
        if answer.is_success or answer.status_code in also:
            return answer
        _check(answer.status_code, answer.text)
        time.sleep(_PAUSE_S)
    raise Refused(f"nothing was accepted within {TIMEOUT_S:g} s")


def _check(status: int, text: str = "") -> None:
    """Accept a 503 and raise Refused for any other status.

    A 503 means that the database is away; anything else must not answer a correct request.
    """
    if status != httpx.codes.SERVICE_UNAVAILABLE:
        raise Refused(f"status {status}: {text[:300]}")

"""Clients that do what a careful user does: ask with a key, ask again when nobody answered, follow events to their end."""

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from tests.chaos import expected

GIVE_UP_S = 1200.0
_PAUSE_S = 0.1
_TIMEOUT = httpx.Timeout(10.0)
_SILENCE = httpx.Timeout(5.0, read=20.0)
_SERVER_ERROR = 500


@dataclass(slots=True, kw_only=True)
class Asked:
    """A job as its client knows it; ``violations`` are answers that no client should get."""

    number: int
    key: str
    work_s: float
    id: str = ""
    tries: int = 0
    cancelled: bool = False
    seen: list[int] = field(default_factory=list)
    """The ids of the events that a watcher saw, in order."""
    violations: list[str] = field(default_factory=list)


class Refused(Exception):  # noqa: N818 - an answer, told as a violation
    """The service answered what it never should."""


def client(url: str) -> httpx.Client:
    """Return a client; a thread has its own."""
    return httpx.Client(base_url=url, timeout=_TIMEOUT)


def submit(http: httpx.Client, job: Asked, body: dict[str, object] | None = None) -> None:
    """Ask for ``job`` until it is accepted; the key makes it one job however often it is asked for."""
    asked = body or expected.request(job.number, work_s=job.work_s)

    def ask() -> httpx.Response:
        job.tries += 1
        return http.post("/v1/measurements", json=asked, headers={"idempotency-key": job.key})

    job.id = str(_insist(ask).json()["id"])


def cancel(http: httpx.Client, job: Asked) -> None:
    """Cancel a job, unless it is over; twice is once."""
    answer = _insist(lambda: http.delete(f"/v1/measurements/{job.id}"), also=(httpx.codes.CONFLICT,))
    job.cancelled = answer.is_success


def watch(http: httpx.Client, job: Asked) -> None:
    """Follow a job's events to the last one, over every connection that breaks."""
    end = time.monotonic() + GIVE_UP_S
    while time.monotonic() < end:
        headers = {"last-event-id": str(job.seen[-1])} if job.seen else {}
        try:
            with http.stream("GET", f"/v1/measurements/{job.id}/events", headers=headers, timeout=_SILENCE) as stream:
                if stream.status_code == httpx.codes.NO_CONTENT:
                    return
                if not stream.is_success:
                    _check(stream.status_code)
                else:
                    job.seen += [int(line[len("id: ") :]) for line in stream.iter_lines() if line.startswith("id: ")]
        except httpx.TransportError:
            pass
        time.sleep(_PAUSE_S)
    raise Refused(f"the events of job {job.number} did not end within {GIVE_UP_S:g} s")


def new_job(number: int, *, work_s: float = 0.0) -> Asked:
    """Return a job that nobody asked for yet."""
    return Asked(number=number, key=uuid.uuid4().hex, work_s=work_s)


def in_thread(work: Callable[[httpx.Client, Asked], None], url: str, job: Asked) -> threading.Thread:
    """Run ``work`` for one job beside everything else; what it raises becomes a violation of the job."""

    def run() -> None:
        try:
            with client(url) as http:
                work(http, job)
        except (Refused, httpx.HTTPError) as error:
            job.violations.append(f"job {job.number}: {work.__name__}: {error!r}")

    thread = threading.Thread(target=run, daemon=True, name=f"{work.__name__}-{job.number}")
    thread.start()
    return thread


def _insist(ask: Callable[[], httpx.Response], *, also: tuple[int, ...] = ()) -> httpx.Response:
    end = time.monotonic() + GIVE_UP_S
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
    raise Refused(f"nothing was accepted within {GIVE_UP_S:g} s")


def _check(status: int, text: str = "") -> None:
    """Take a 503, which says that the database is away; anything else is not what a correct request deserves."""
    if status != httpx.codes.SERVICE_UNAVAILABLE:
        raise Refused(f"status {status}: {text[:300]}")

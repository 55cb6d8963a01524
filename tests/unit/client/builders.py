"""Builders for tests of the client: a server that answers what a test says, and pauses that take no
time.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import httpx
from attrs import NOTHING, fields

from service.client.generated.models import MeasurementAnswer
from service.client.headroom import Headroom
from service.client.retrying import Retries

Answer = httpx.Response | Exception
Handler = Callable[[httpx.Request], httpx.Response]


@dataclass(slots=True)
class Script:
    """Answers one request after another, and keeps what it was asked."""

    answers: Iterator[Answer]
    asked: list[httpx.Request] = field(default_factory=list)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        """Give the next answer, or fail as a network does."""
        self.asked.append(request)
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """A client, the script that answers it, and the pauses it made."""

    headroom: Headroom
    script: Script
    pauses: list[float]


def scene(*answers: Answer, attempts: int = 5) -> Scene:
    """Return a client whose server gives these answers, and whose pauses are as long as they may
    be.
    """
    script, pauses = Script(iter(answers)), list[float]()
    retries = Retries(attempts=attempts, jitter=lambda: 1.0, pause=pauses.append)
    http = httpx.MockTransport(script)
    return Scene(
        headroom=Headroom("http://headroom.test", api_key="hr_k", retries=retries, http=http),
        script=script,
        pauses=pauses,
    )


def problem(
    status: int, kind: str, *, headers: dict[str, str] | None = None, **members: object
) -> httpx.Response:
    """Return a refusal as the server sends it."""
    document = {
        "type": kind,
        "title": "No",
        "status": status,
        "detail": f"{kind} it is",
        "instance": "/v1/x",
        **members,
    }
    all_headers = {
        "content-type": "application/problem+json",
        "x-request-id": "r-1",
        **(headers or {}),
    }
    return httpx.Response(status, json=document, headers=all_headers)


def version() -> httpx.Response:
    """Return the shortest answer there is."""
    return httpx.Response(200, json={"name": "gpu-headroom", "version": "1", "python": "3.11"})


def measurement(status: str = "queued") -> dict[str, object]:
    """Return a measurement as the server sends it."""
    nothing = {
        found.name: None
        for found in fields(MeasurementAnswer)
        if found.init and found.default is NOTHING
    }
    known = {
        "id": "m1",
        "status": status,
        "attempt": 1,
        "device": "cpu",
        "source": "probe",
        "progress": 0.0,
        "phase": "waits",
    }
    return {
        **nothing,
        **known,
        "created_at": "2026-01-01T00:00:00Z",
        "cancel_requested": False,
        "request": {},
    }

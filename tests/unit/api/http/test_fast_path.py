"""The fast path: what it answers is, to the byte, what the router answers."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self, cast

import pytest
from litestar.types import ASGIApp, HTTPScope, Message, Receive, Send
from structlog.testing import capture_logs

from service.access.keys import Principal, Scope
from service.api.application import make_application
from service.api.http.auth import Access, Guard
from service.api.http.dependencies import Dependencies
from service.api.http.disconnect import CLIENT_CLOSED_REQUEST
from service.api.http.operation import Operation
from service.api.metrics.registry import Metrics
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.base.errors import TooManyRequestsError, UnauthorizedError
from service.estimator.cache import PlanCache
from service.usecases.operations.metrics_snapshot import NO_READING
from tests.unit.api.builders import changed, parts

JSON = ("content-type", "application/json")
QUESTION: dict[str, Any] = {
    "model": "gpt2",
    "workload": {"task": "train", "sequence_length": 64},
    "gpu": "H200",
}
GOOD = json.dumps(QUESTION).encode()
READER = Principal(name="reader", scopes=frozenset({Scope.READ}), key_id="1", rate="1/hour")
NOBODY = Principal(name="nobody", scopes=frozenset())


class BrokenPlans(PlanCache):
    """Recordings that fail."""

    def with_cancellation(self, check: object) -> Self:  # noqa: ARG002 - the same words
        """Fail."""
        message = "broken"
        raise RuntimeError(message)


async def refuse_rate(_principal: Principal, _operation: Operation) -> None:
    """Refuse as a limit that is reached."""
    message = "this key may send requests 1/hour; try again in 9 s"
    raise TooManyRequestsError(message, retry_after_s=9)


def find_key(text: str) -> Principal:
    """Return whose key it is."""
    if text not in {"reader", "nobody"}:
        message = "a valid key is needed"
        raise UnauthorizedError(message)
    return READER if text == "reader" else NOBODY


def make_ways(make_parts: Callable[[], Dependencies] = parts) -> tuple[ASGIApp, ASGIApp]:
    """Return the application with and without the fast path, each with parts of its own."""
    return (
        make_application(make_parts(), handlers=ROUTERS, fast_route=FAST_ROUTE),
        make_application(make_parts(), handlers=ROUTERS),
    )


@pytest.fixture(scope="module", name="ways")
def start() -> tuple[ASGIApp, ASGIApp]:
    """Make both applications once for the tests of this file."""
    return make_ways()


async def send_request(
    app: ASGIApp,
    *chunks: bytes,
    headers: tuple[tuple[str, str], ...] = (JSON,),
    query: bytes = b"",
    method: str = "POST",
    path: str = "/v1/fit",
) -> list[dict[str, Any]]:
    """Return every message that an application sends for one request."""
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query,
        "headers": [
            (b"host", b"localhost"),
            (b"x-request-id", b"one"),
            *((name.encode(), value.encode()) for name, value in headers),
        ],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
        "scheme": "http",
        "http_version": "1.1",
        "state": {},
    }
    sent: list[dict[str, Any]] = []
    waiting: list[dict[str, object]] = [
        {"type": "http.request", "body": chunk, "more_body": number < len(chunks)}
        for number, chunk in enumerate(chunks, start=1)
    ]

    async def receive() -> Any:  # noqa: ANN401  # any message
        if chunks and not waiting:
            await asyncio.Event().wait()  # who asked stays until the answer is there
        return waiting.pop(0) if waiting else {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(dict(message))

    await app(cast("HTTPScope", scope), cast("Receive", receive), cast("Send", send))
    return sent


def ask_both(
    ways: tuple[ASGIApp, ASGIApp], *chunks: bytes, said: dict[str, Any] | None = None
) -> list[list[dict[str, Any]]]:
    """Return what both ways send for a request."""
    return [asyncio.run(send_request(app, *chunks, **(said or {}))) for app in ways]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        ({}, 200),
        ({"headers": (("content-type", "application/json; charset=utf-8"),)}, 200),
        ({"headers": (JSON, ("if-none-match", "*"))}, 304),
        ({"headers": (JSON, ("if-none-match", "broken"))}, 422),
        ({"headers": (("content-type", "text/plain"),)}, 415),
        ({"headers": (JSON, ("content-encoding", "gzip"))}, 415),
        ({"headers": (JSON, ("content-length", "1000001"))}, 413),
        ({"query": b"x=1"}, 422),
        ({"path": "/v1/fit/"}, 200),
        ({"path": "/v1/fits"}, 404),
        ({"method": "GET"}, 405),
        ({"method": "HEAD"}, 405),
        ({"method": "OPTIONS"}, 204),
        ({"method": "PUT"}, 405),
    ],
)
def test_both_ways_answer_alike(
    ways: tuple[ASGIApp, ASGIApp], said: dict[str, Any], status: int
) -> None:
    """Status, headers in their order, and body."""
    fast, routed = ask_both(ways, GOOD, said=said)

    assert fast == routed
    assert {message["status"] for message in fast if "status" in message} == {status}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b'{"model": "\xff"}', 400),
        (b'{"model": ' + b'{"hf_config": ' * 2000 + b"1" + b"}" * 2001, 400),
        (b"", 400),
        (b"[]", 422),
        (b" " * 1_000_001, 413),
        (json.dumps(changed("gpu", "A100", QUESTION)).encode(), 422),
        (json.dumps(changed("model", "gpt-9", QUESTION)).encode(), 422),
        (json.dumps(changed("layout.tensor_parallel", 3, QUESTION)).encode(), 422),
        (json.dumps(changed("workload.micro_batch_sise", 3, QUESTION)).encode(), 422),
        (
            json.dumps(changed("model", {"hf_config": {"model_type": "lama"}}, QUESTION)).encode(),
            422,
        ),
        (GOOD.replace(b'"gpu"', b'"gpu": 5, "gpu"'), 422),
        (GOOD.replace(b'"gpu"', b'"g\\u0070u"'), 200),
        (GOOD.replace(b"{", b'{"confidence": 0.999999, ', 1), 422),
        (GOOD.replace(b"{", b'{"layout": null, ', 1), 422),
    ],
)
def test_both_ways_read_alike(ways: tuple[ASGIApp, ASGIApp], body: bytes, status: int) -> None:
    """Whatever is sent as a question."""
    fast, routed = ask_both(ways, body)

    assert fast == routed
    assert fast[0]["status"] == status


@pytest.mark.parametrize(
    ("key", "status"), [("reader", 429), ("nobody", 403), ("other", 401), (None, 401)]
)
def test_both_ways_let_in_alike(key: str | None, status: int) -> None:
    """Keys, their scopes and their limits, before anything is read."""
    guard = Guard(Access.KEYS, find=find_key, throttle=refuse_rate)
    ways = make_ways(lambda: replace(parts(), guard=guard))
    headers = (JSON,) if key is None else (JSON, ("authorization", f"Bearer {key}"))
    fast, routed = ask_both(ways, b"{", said={"headers": headers})

    assert fast == routed
    assert fast[0]["status"] == status


def test_both_ways_count_alike() -> None:
    """By the route's template, whatever came of it."""
    counted = []
    for fast_route in (FAST_ROUTE, None):
        metrics = Metrics()
        deps = replace(parts(), metrics=metrics)
        app = make_application(deps, handlers=ROUTERS, fast_route=fast_route)
        for body in (GOOD, GOOD, GOOD, b"{"):
            asyncio.run(send_request(app, body))
        lines = metrics.render(NO_READING).decode().splitlines()
        counted.append([line for line in lines if "_total" in line and not line.startswith("#")])

    assert counted[0] == counted[1]
    assert counted[0][:2] == [
        'headroom_http_requests_total{method="POST",route="/v1/fit",status="200"} 3.0',
        'headroom_http_requests_total{method="POST",route="/v1/fit",status="400"} 1.0',
    ]


def test_both_ways_report_a_fault_alike() -> None:
    """The log says what broke, under the request's id; the client is told that id."""
    ways = make_ways(lambda: replace(parts(), plans=BrokenPlans()))
    with capture_logs() as lines:
        fast, routed = ask_both(ways, GOOD)

    assert fast == routed
    assert fast[0]["status"] == 500
    failed = [line for line in lines if line["event"] == "request.failed"]
    assert [(line["path"], line["request_id"]) for line in failed] == [("/v1/fit", "one")] * 2


def test_a_body_comes_in_pieces(ways: tuple[ASGIApp, ASGIApp]) -> None:
    """As the server hands it on."""
    fast, routed = ask_both(ways, GOOD[:10], GOOD[10:20], b"", GOOD[20:])

    assert fast == routed
    assert fast[0]["status"] == 200


def test_a_body_that_grows_too_long_is_not_read_to_its_end(
    ways: tuple[ASGIApp, ASGIApp],
) -> None:
    """Whatever it announced."""
    fast, routed = ask_both(ways, *[b" " * 400_000] * 3)

    assert fast == routed
    assert fast[0]["status"] == 413


def test_who_leaves_while_sending_is_answered_alike(ways: tuple[ASGIApp, ASGIApp]) -> None:
    """Nobody reads it, and it is counted; as a fault, strangers would raise its alert."""
    fast, routed = ask_both(ways)

    assert fast == routed
    assert fast[0]["status"] == CLIENT_CLOSED_REQUEST

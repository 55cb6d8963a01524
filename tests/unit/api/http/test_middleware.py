"""The outermost layer: request ids, HEAD, and what is counted."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from litestar import Litestar, get
from litestar.params import FromPath
from litestar.response.streaming import ASGIStreamingResponse
from litestar.testing import TestClient
from litestar.types import ASGIApp
from structlog.testing import capture_logs

from service.api.http.middleware import RequestMiddleware
from service.api.http.problems import HANDLERS
from service.api.http.responses import json_response
from service.api.metrics.registry import Metrics
from service.usecases.operations.metrics_snapshot import NO_READING


@get("/things/{name:str}", sync_to_thread=False)
def thing(name: FromPath[str]) -> ASGIApp:
    """Answer with the name."""
    return json_response({"name": name})


@get("/stream", sync_to_thread=False)
def stream() -> ASGIApp:
    """Answer without an end."""

    async def forever() -> AsyncIterator[bytes]:
        while True:
            yield b": more\n\n"

    return ASGIStreamingResponse(iterator=forever(), media_type="text/event-stream")


def client_of(counted: Metrics) -> TestClient[Any]:
    """Return a client of an application behind the edge."""
    return TestClient(
        RequestMiddleware(
            Litestar([thing, stream], exception_handlers=HANDLERS, openapi_config=None),
            counted,
            version="1.2.3",
        ),
    )


def test_head_is_get_without_a_body() -> None:
    """HEAD has the headers of GET, the length included, and no body."""
    with client_of(Metrics()) as client:
        head, whole = client.head("/things/a"), client.get("/things/a")

    assert head.status_code == whole.status_code == 200
    assert head.headers["content-length"] == whole.headers["content-length"] != "0"
    assert head.content == b""


def test_head_of_a_stream_ends() -> None:
    """HEAD does not wait for the end of an answer that has none."""
    with client_of(Metrics()) as client:
        assert client.head("/stream").headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize(
    ("sent", "kept"), [("abc-1", True), ("a b", False), ("x" * 200, False), (None, False)]
)
def test_every_answer_has_a_request_id(sent: str | None, *, kept: bool) -> None:
    """A client's own id comes back if it is one; otherwise a fresh one is made. Refusals have one
    too.
    """
    headers = {} if sent is None else {"x-request-id": sent}
    with client_of(Metrics()) as client:
        first, second = (
            client.get("/things/a", headers=headers),
            client.get("/nowhere", headers=headers),
        )

    assert (first.headers["x-request-id"] == sent) is kept
    assert second.headers["x-request-id"]
    assert kept or first.headers["x-request-id"] != second.headers["x-request-id"]


def test_every_answer_says_the_version() -> None:
    """Refusals too: a client that is not understood learns why."""
    with client_of(Metrics()) as client:
        found = [client.get(path).headers["headroom-version"] for path in ("/things/a", "/nowhere")]

    assert found == ["1.2.3", "1.2.3"]


@pytest.mark.parametrize("access_log", [True, False])
def test_requests_are_logged_only_if_asked(*, access_log: bool) -> None:
    """A line has the path, the status and the id, and never a header or a body."""
    app = Litestar([thing, stream], exception_handlers=HANDLERS, openapi_config=None)
    with (
        capture_logs() as lines,
        TestClient(RequestMiddleware(app, Metrics(), version="1", access_log=access_log)) as client,
    ):
        client.get("/things/a", headers={"x-request-id": "abc", "authorization": "secret"})

    logged = [line for line in lines if line["event"] == "request.answered"]
    assert [(line["path"], line["status"], line["request_id"]) for line in logged] == [
        ("/things/a", 200, "abc")
    ] * access_log
    assert "secret" not in str(logged)


def test_requests_are_counted_by_route() -> None:
    """The template is the label, not the path, so that labels stay few."""
    counted = Metrics()
    with client_of(counted) as client:
        for path in ("/things/a", "/things/b", "/nowhere/1", "/nowhere/2"):
            client.get(path)
    text = counted.render(NO_READING).decode()

    assert (
        'headroom_http_requests_total{method="GET",route="/things/{name}",status="200"} 2.0' in text
    )
    assert 'headroom_http_requests_total{method="GET",route="unrouted",status="404"} 2.0' in text
    assert 'headroom_http_request_seconds_count{route="/things/{name}"} 2.0' in text


def test_unknown_methods_share_a_label() -> None:
    """A client cannot make labels by inventing methods."""
    counted = Metrics()
    with client_of(counted) as client:
        for number in range(3):
            client.request(f"X{number}", "/things/a")

    assert counted.render(NO_READING).decode().count("headroom_http_requests_total{") == 1

"""The client: pages put together, problems in their own words."""

import json
from collections.abc import Callable, Iterator

import httpx
import pytest

from service.base.errors import ServiceError
from service.cli.http import ask, build_path, connect, delete, read_all, replace

Answer = Callable[[httpx.Request], httpx.Response]


def build_client(answer: Answer) -> httpx.Client:
    """Return a client whose server is a function."""
    return httpx.Client(base_url="http://server", transport=httpx.MockTransport(answer))


def test_all_pages_are_read() -> None:
    """A list is followed to its last page, with the filters that were given."""
    pages: Iterator[dict[str, object]] = iter(
        [
            {"items": [{"name": "a"}], "next_cursor": "c1"},
            {"items": [{"name": "b"}], "next_cursor": None},
        ],
    )
    asked: list[dict[str, str]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(dict(request.url.params))
        return httpx.Response(200, json=next(pages))

    with build_client(answer) as client:
        assert read_all(client, "/v1/models", status="queued") == [{"name": "a"}, {"name": "b"}]

    assert asked == [
        {"status": "queued", "limit": "200"},
        {"status": "queued", "limit": "200", "cursor": "c1"},
    ]


def test_a_problem_is_told_by_its_detail() -> None:
    """A problem document speaks for itself."""
    problem = {"type": "unknown-model", "status": 422, "detail": "no model is named 'lama'"}
    with (
        build_client(lambda _: httpx.Response(422, json=problem)) as client,
        pytest.raises(ServiceError, match="no model is named 'lama'"),
    ):
        ask(client, "POST", "/v1/fit", body={})


@pytest.mark.parametrize("body", [b"<html>", b"", b"[]", b'{"detail": 5}'])
def test_an_answer_that_is_no_problem_is_told_by_its_status(body: bytes) -> None:
    """A proxy's page is not printed, its status is."""
    with (
        build_client(lambda _: httpx.Response(502, content=body)) as client,
        pytest.raises(ServiceError, match="502 Bad Gateway to GET http://server/v1/models"),
    ):
        ask(client, "GET", "/v1/models")


def test_changes_name_the_version_that_was_read() -> None:
    """Replacing and deleting send the entity tag that the server gave last."""
    sent: list[tuple[str, str | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append((request.method, request.headers.get("if-match")))
        return httpx.Response(200, json={}, headers={"etag": '"3"'})

    with build_client(answer) as client:
        replace(client, "/v1/models/a", {})
        delete(client, "/v1/models/a")

    assert sent == [("GET", None), ("PUT", '"3"'), ("GET", None), ("DELETE", '"3"')]


def test_a_body_is_json() -> None:
    """A body goes as JSON and says so; without one nothing is claimed."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            200, json=[request.headers.get("content-type"), json.loads(request.content or "null")]
        )

    with build_client(answer) as client:
        assert ask(client, "POST", "/", body={"a": 1}).json() == ["application/json", {"a": 1}]
        assert ask(client, "GET", "/").json() == [None, None]


@pytest.mark.parametrize(
    ("server", "told"),
    [
        ("http://127.0.0.1:1", "no server answers"),
        ("ftp://host", "no address"),
        ("http://[", "no address"),
    ],
)
def test_a_server_that_is_not_there_is_told_in_words(server: str, told: str) -> None:
    """Neither a refused connection nor a broken address shows a traceback."""
    with pytest.raises(ServiceError, match=told), connect(server) as client:
        ask(client, "GET", "/healthz")


def test_the_environment_names_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """HEADROOM_URL is asked unless a server is named."""
    monkeypatch.setenv("HEADROOM_URL", "http://from-environment")
    with connect(None) as client:
        assert client.base_url.host == "from-environment"
    with connect("http://named") as client:
        assert client.base_url.host == "named"


@pytest.mark.parametrize("key", ["hr_secret\nx", "hr_sécret", "hr secret", "\n"])
def test_a_key_that_is_none_is_refused_without_saying_it(
    monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """What a command prints stands in logs for years."""
    monkeypatch.setenv("HEADROOM_API_KEY", key)
    with (
        pytest.raises(ServiceError, match="HEADROOM_API_KEY: the key") as told,
        connect("http://server"),
    ):
        pass
    assert "cret" not in str(told.value)


def test_the_end_of_a_file_is_no_part_of_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is read out of a file more often than not."""
    monkeypatch.setenv("HEADROOM_API_KEY", "hr_k\r\n")
    with connect("http://server") as client:
        assert client.headers["authorization"] == "Bearer hr_k"


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    """It would ask for the list, or for something else."""
    with pytest.raises(ServiceError, match="no name"):
        build_path("models", name)


def test_names_in_paths_are_quoted() -> None:
    """A name with a slash stays one part of the path."""
    assert build_path("models", "meta-llama/Llama-2-7b") == "/v1/models/meta-llama%2FLlama-2-7b"

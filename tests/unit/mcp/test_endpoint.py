"""``/mcp`` over HTTP: the SDK's client, the API's keys, limits and refusals."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any
from uuid import UUID

import anyio
import httpx2
import pytest
from litestar import Litestar
from litestar.types import ASGIApp
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from service.access.keys import Principal, Scope
from service.api.application import make_application
from service.api.http.auth import Access, Guard, make_open_guard
from service.api.http.operation import Operation
from service.api.resources.fit import FAST_ROUTE
from service.app import ROUTERS
from service.base.errors import TooManyRequestsError, UnauthorizedError
from service.catalog.gpus import list_gpus
from service.mcp.endpoint import McpEndpoint
from tests.unit.api.builders import FIT, changed, parts

KEYS = {
    "reader": Principal(
        name="r", scopes=frozenset({Scope.READ}), key_id=str(UUID(int=1)), rate="2/hour"
    ),
    "planner": Principal(
        name="p", scopes=frozenset({Scope.READ, Scope.PLAN}), key_id=str(UUID(int=2))
    ),
}
RESERVATION = "3f0f2c9e-6a43-4c0e-9a52-1d5f6a2f7a10"
Use = Callable[[Client], Awaitable[None]]


def find_key(text: str) -> Principal:
    """Return whose key it is."""
    if text not in KEYS:
        message = "a valid key is needed"
        raise UnauthorizedError(message)
    return KEYS[text]


def use_over_http(use: Use, key: str, *, throttled: list[str] | None = None) -> None:
    """Let a client with a key use the endpoint of an application over fakes."""

    async def throttle(_principal: Principal, operation: Operation) -> None:
        (throttled if throttled is not None else []).append(operation.id)

    guard = Guard(Access.KEYS, find=find_key, throttle=throttle)
    deps = replace(parts(), guard=guard)
    endpoint = McpEndpoint(guard, version="1.2.3")
    app = make_application(deps, handlers=ROUTERS, fast_route=FAST_ROUTE, extension=endpoint)

    async def main() -> None:
        async with (
            endpoint.lifespan(Litestar()),
            open_client(app, key) as http,
            Client(streamable_http_client("http://headroom/mcp", http_client=http)) as client,
        ):
            await use(client)

    anyio.run(main)


def open_client(app: ASGIApp, key: str) -> httpx2.AsyncClient:
    """Return an HTTP client of an application, which sends a key."""
    transport = httpx2.ASGITransport(app=app)  # type: ignore[arg-type]  # ASGI's types by other names
    return httpx2.AsyncClient(transport=transport, headers={"authorization": f"Bearer {key}"})


def test_a_question_is_answered_with_the_key_of_the_caller() -> None:
    """One question is one request against the limit of his key, whatever the protocol sends
    besides.
    """
    throttled: list[str] = []

    async def use(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("fit", FIT)
        refused = await client.call_tool("fit", changed("model", "lama-2-7b"))
        assert names == ["fit", "how_many", "plan", "explain", "post_mortem", "list"]
        assert result.structured_content["verdict"] == "does_not_fit"
        assert refused.is_error
        assert refused.structured_content["instance"] == "/v1/fit"
        assert client.server_info is not None
        assert client.server_info.version == "1.2.3"

    use_over_http(use, "reader", throttled=throttled)

    assert throttled == ["fit", "fit"]


def test_lists_are_read_to_their_last_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """More GPUs than one page has are counted; a number is asked for by its query."""
    monkeypatch.setattr("service.mcp.requests._PAGE", 20)

    async def use(client: Client) -> None:
        shown = (await client.call_tool("list", {"kind": "gpus"})).structured_content
        question = {"model": "llama-3.2-1b", "gpu": "H200", "layout": {"zero_stage": 0}}
        number = await client.call_tool("how_many", FIT | question)
        assert shown["num_all"] == shown["num_matching"] == len(list_gpus())
        assert number.structured_content["num_gpus"] == 1

    use_over_http(use, "reader")


def test_who_may_plan_may_reserve() -> None:
    """The tool is there, and reaches the API, whose database is away here."""

    async def use(client: Client) -> None:
        names = [tool.name for tool in (await client.list_tools()).tools]
        arguments = {
            "cluster": "lab",
            "holder": "me",
            "gpus": [{"pool": "a", "num_gpus": 1}],
            "expires_in_s": 60,
        }
        reserved = await client.call_tool("reserve", arguments)
        released = await client.call_tool("release", {"cluster": "lab", "id": RESERVATION})
        assert names[-2:] == ["reserve", "release"]
        assert reserved.structured_content["instance"] == "/v1/clusters/lab/reservations"
        assert [one.structured_content["type"] for one in (reserved, released)] == [
            "unavailable",
            "unavailable",
        ]

    use_over_http(use, "planner")


@pytest.mark.parametrize("key", ["nobody", ""])
def test_nobody_is_let_in_without_a_key(key: str) -> None:
    """401 with what is needed, before the protocol begins."""
    guard = Guard(Access.KEYS, find=find_key)
    endpoint = McpEndpoint(guard, version="1")
    app = make_application(replace(parts(), guard=guard), handlers=ROUTERS, extension=endpoint)
    answers: list[httpx2.Response] = []

    async def main() -> None:
        async with endpoint.lifespan(Litestar()), open_client(app, key or "x") as http:
            answers.append(await http.post("http://headroom/mcp", json={}))

    anyio.run(main)
    (answer,) = answers
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"].startswith("Bearer")
    assert answer.json()["type"] == "unauthorized"


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_nothing_but_calls_is_answered(method: str) -> None:
    """A stream that nobody writes to would only hold a connection."""
    endpoint = McpEndpoint(make_open_guard(), version="1")
    app = make_application(parts(), handlers=ROUTERS, extension=endpoint)
    answers: list[httpx2.Response] = []

    async def main() -> None:
        async with endpoint.lifespan(Litestar()), open_client(app, "x") as http:
            answers.append(await http.request(method, "http://headroom/mcp"))

    anyio.run(main)
    assert (answers[0].status_code, answers[0].headers["allow"]) == (405, "POST")


def test_a_limit_that_is_reached_is_told() -> None:
    """The model reads when it is worth another try."""

    async def refuse(_principal: Principal, _operation: Operation) -> None:
        message = "this key may send requests 2/hour; try again in 9 s"
        raise TooManyRequestsError(message, retry_after_s=9)

    guard = Guard(Access.KEYS, find=find_key, throttle=refuse)
    endpoint = McpEndpoint(guard, version="1")
    app = make_application(replace(parts(), guard=guard), handlers=ROUTERS, extension=endpoint)
    results: list[Any] = []

    async def main() -> None:
        async with (
            endpoint.lifespan(Litestar()),
            open_client(app, "reader") as http,
            Client(streamable_http_client("http://headroom/mcp", http_client=http)) as client,
        ):
            results.append(await client.call_tool("fit", FIT))

    anyio.run(main)
    assert results[0].is_error
    assert results[0].structured_content["retry_after_s"] == 9
    assert "try again in 9 s" in results[0].content[0].text


@pytest.mark.parametrize(
    ("name", "arguments", "field"),
    [
        ("release", {}, "cluster"),
        ("release", {"cluster": "../models/mine?of=", "id": RESERVATION}, "cluster"),
        ("release", {"cluster": "lab", "id": "../../../models/mine"}, "id"),
        ("reserve", {"cluster": 5}, "cluster"),
        ("how_many", {"model": "gpt2", "gpu": "L4", "workload": 5}, "workload"),
    ],
)
def test_arguments_are_checked_before_they_are_an_address(
    name: str, arguments: dict[str, Any], field: str
) -> None:
    """What is no name of a cluster reaches no other resource, and is refused in words."""

    async def use(client: Client) -> None:
        refused = await client.call_tool(name, arguments)
        assert refused.is_error
        assert refused.structured_content["type"] == "invalid-request"
        assert field in refused.structured_content["detail"]

    throttled: list[str] = []
    use_over_http(use, "planner", throttled=throttled)

    assert throttled == []

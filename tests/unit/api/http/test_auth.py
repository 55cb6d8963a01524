"""Who is let in without a key, and for how long somebody who was let in may go on."""

import asyncio
import base64
import os

import pytest
from litestar.types import HTTPScope

from service.access.keys import Principal, Scope
from service.access.peers import UnknownPeerError
from service.api.http.auth import Access, Guard
from service.api.http.operation import Operation
from service.base.errors import ForbiddenError, UnauthorizedError
from service.usecases.access.keys import make_missing_key_error

NOBODY = Principal(name="nobody", scopes=frozenset())
READ = Operation(id="read", tag="t", summary="Read.", replies={})
WRITE = Operation(id="write", tag="t", summary="Write.", replies={}, scope=Scope.ADMIN)


def scope(path: str = "/v1/fit", method: str = "POST", **headers: str) -> HTTPScope:
    """Return as much of the scope of a request from this machine as is looked at."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    ends = {"client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8000)}
    sent = [(b"host", b"localhost"), *named]
    return {**ends, "method": method, "path": path, "headers": sent, "state": {}}  # type: ignore[typeddict-item]  # the rest is not read


def local_guard(uid: int | None = None) -> Guard:
    """Return a guard that knows no key, and whose program every connection is of."""
    return Guard(Access.LOCAL, find=lambda _text: NOBODY, find_uid=lambda _client, _server: uid)


def test_a_program_of_this_machine_is_let_in() -> None:
    """It sends no header of a proxy."""
    asyncio.run(local_guard().admit(scope(accept="*/*", x_api_version="1"), WRITE))


@pytest.mark.parametrize(
    "name",
    [
        *("forwarded", "via", "x_real_ip", "true_client_ip", "x_client_ip", "x_cluster_client_ip"),
        *(
            "x_forwarded_for",
            "x_forwarded_host",
            "x_forwarded_proto",
            "x_forwarded_scheme",
            "x_forwarded_ssl",
            "x_forwarded",
        ),
        *("x_original_forwarded_for", "x_envoy_external_address", "cf_connecting_ip", "cf_ray"),
    ],
)
def test_what_a_proxy_adds_is_seen(name: str) -> None:
    """Whatever its name: a request that a proxy passed on is nobody's of this machine."""
    with pytest.raises(UnauthorizedError, match="came through a proxy"):
        asyncio.run(local_guard().admit(scope(**{name: "203.0.113.9"}), READ))


@pytest.mark.parametrize("uid", [0, os.geteuid(), None])
def test_who_runs_the_server_is_let_in(uid: int | None) -> None:
    """So is root, and anybody where the system tells nothing."""
    asyncio.run(local_guard(uid).admit(scope(), WRITE))


def test_other_users_of_this_machine_need_a_key() -> None:
    """Being on the same machine makes nobody an administrator."""
    with pytest.raises(UnauthorizedError, match=r"another user's program \(uid 64999\)"):
        asyncio.run(local_guard(64999).admit(scope(), READ))


def test_a_program_that_is_gone_is_not_let_in() -> None:
    """Who sends a change and closes at once has not shown whose it is."""

    def find(_client: tuple[str, int], _server: tuple[str, int]) -> int:
        message = "nobody holds it"
        raise UnknownPeerError(message)

    guard = Guard(Access.LOCAL, find=lambda _text: NOBODY, find_uid=find)
    with pytest.raises(UnauthorizedError, match="a program that is gone"):
        asyncio.run(guard.admit(scope(), WRITE))


def test_who_was_let_in_is_looked_at_again_and_not_counted() -> None:
    """A key that ends, or that may less, is refused; what is told meanwhile counts against no
    limit.
    """
    answers: list[Principal | UnauthorizedError] = []
    counted: list[str] = []

    def find(_text: str) -> Principal:
        answer = answers.pop(0)
        if isinstance(answer, UnauthorizedError):
            raise answer
        return answer

    async def throttle(principal: Principal, _operation: Operation) -> None:
        counted.append(principal.name)

    async def follow() -> None:
        request = scope(x_api_key="k")
        await guard.admit(request, READ)
        await guard.readmit(request, READ)
        with pytest.raises(ForbiddenError):
            await guard.readmit(request, READ)
        with pytest.raises(UnauthorizedError):
            await guard.readmit(request, READ)

    guard = Guard(Access.KEYS, find=find, throttle=throttle)
    reader = Principal(name="a", scopes=frozenset({Scope.READ}), key_id="1", rate="1/day")
    answers += [reader, reader, Principal(name="a", scopes=frozenset()), make_missing_key_error()]
    asyncio.run(follow())

    assert counted == ["a"]


def find_reader(text: str) -> Principal:
    """Return a reader for the one key there is."""
    if text != "hr_key:with_colon":
        raise make_missing_key_error()
    return Principal(name="reader", scopes=frozenset({Scope.READ}))


def basic(credentials: str) -> str:
    """Return a header's value as clients make it from an address."""
    return f"Basic {base64.b64encode(credentials.encode()).decode()}"


@pytest.mark.parametrize("user", ["", "headroom"])
def test_hooks_take_a_key_as_a_password(user: str) -> None:
    """SkyPilot and dstack can put credentials into the address alone; the name says nothing."""
    request = scope("/v1/hooks/skypilot/refuse", authorization=basic(f"{user}:hr_key:with_colon"))

    asyncio.run(Guard(Access.KEYS, find=find_reader).admit(request, READ))

    assert request["state"]["principal"].name == "reader"


@pytest.mark.parametrize("path", ["/v1/fit", "/v1/keys", "/v1/hooks", "/mcp", "/v1/hooksmith/x"])
def test_nothing_else_takes_a_password(path: str) -> None:
    """A browser that keeps one would send it along with another site's requests."""
    request = scope(path, authorization=basic("headroom:hr_key:with_colon"))

    with pytest.raises(UnauthorizedError, match="Authorization: Bearer"):
        asyncio.run(Guard(Access.KEYS, find=find_reader).admit(request, READ))


@pytest.mark.parametrize(
    "value", ["Basic", "Basic !", "Basic /w==", basic("hr_key:"), basic("no"), basic(":wrong")]
)
def test_what_holds_no_key_is_refused(value: str) -> None:
    """Whatever is wrong with it, in the words of a missing key."""
    request = scope("/v1/hooks/skypilot/refuse", authorization=value)

    with pytest.raises(UnauthorizedError, match="a valid key is needed"):
        asyncio.run(Guard(Access.KEYS, find=find_reader).admit(request, READ))

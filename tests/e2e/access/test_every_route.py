"""Every route that the application has, without a key, with wrong ones, with ones that may do less,
and with the right one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta

import pytest
from litestar import Litestar
from litestar.routes import HTTPRoute
from sqlalchemy.orm import Session, sessionmaker

from service.access.keys import Scope, create_token, expand_scopes
from service.api.http import docs
from service.api.http.operation import Operation
from service.app import ROUTERS
from service.usecases.access import keys
from service.usecases.access.keys import NewKey
from tests.e2e.access.conftest import ask, make_key, until_known

PUBLIC_OPERATIONS = {"/healthz", "/readyz", "/version"}
"""Operations that need no key: a balancer and a person who asks what runs have none."""
PUBLIC_PAGES = {
    "/",
    "/accuracy",
    "/models",
    "/clusters",
    "/clusters/{cluster}",
    "/measurements",
    "/measurements/{measurement}",
    "/questions/{digest}",
    "/static/{build}/{name}",
    "/docs",
    "/docs/openapi.json",
    "/docs/static/{name}",
}
"""Pages and files that hold no data: what their scripts ask for needs the key of whoever looks. A
new one is declared here.
"""
_PARAMETER = re.compile(r"\{[a-z]+\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One method of one path, and what it promises, which pages do not."""

    method: str
    template: str
    operation: Operation | None

    @property
    def path(self) -> str:
        """Return a path that it answers."""
        return _PARAMETER.sub("a", self.template)


def routes() -> Iterator[Route]:
    """Yield everything that the application routes, whether the OpenAPI document has it or not."""
    app = Litestar(route_handlers=[*ROUTERS, docs.router], openapi_config=None, logging_config=None)
    for route in (route for route in app.routes if isinstance(route, HTTPRoute)):
        for handler in route.route_handlers:
            for method in handler.http_methods:
                if method != "OPTIONS":
                    yield Route(
                        method=str(method),
                        template=route.path_format,
                        operation=handler.opt.get("operation"),
                    )


GUARDED = [
    route for route in routes() if route.operation is not None and route.operation.scope is not None
]


def test_what_needs_no_key_is_declared() -> None:
    """A route that somebody adds is guarded, or its author says here that it is for everybody."""
    found = list(routes())

    assert len(GUARDED) > len(PUBLIC_PAGES)
    assert {route.template for route in found if route.operation is None} == PUBLIC_PAGES
    assert {
        route.template for route in found if route.operation and route.operation.scope is None
    } == PUBLIC_OPERATIONS
    assert {route.method for route in found if route not in GUARDED} == {"GET"}


def test_every_guarded_route_wants_a_valid_key(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """Without a key, with one that nobody made, with one that is over or revoked: 401 in the same
    words everywhere.
    """
    everything = frozenset(Scope)
    over = keys.create(
        sessions,
        NewKey(
            name="old", scopes=everything, created_by="a test", expires_in=timedelta(milliseconds=1)
        ),
    )[1]
    stored, revoked = keys.create(
        sessions, NewKey(name="gone", scopes=everything, created_by="a test")
    )
    keys.revoke(sessions, stored.id)
    until_known(address, make_key(sessions, Scope.ADMIN))

    for route in GUARDED:
        wrong = (None, create_token().text, over, revoked, "nonsense", "ey.is.no-token")
        answers = [ask(address, route.method, route.path, key) for key in wrong]
        assert {answer.status_code for answer in answers} == {401}, route
        assert len({answer.content for answer in answers}) == 1, route
        assert {answer.headers["www-authenticate"] for answer in answers} == {
            'Bearer realm="headroom"'
        }


def test_every_guarded_route_lets_the_right_keys_in_and_no_lesser_one(
    address: str, sessions: sessionmaker[Session]
) -> None:
    """A scope opens what needs it; every other one is told which is missing."""
    made = {scope: make_key(sessions, scope) for scope in Scope}
    for key in made.values():
        until_known(address, key)

    for route in GUARDED:
        assert route.operation is not None
        for scope, key in made.items():
            answer = ask(address, route.method, route.path, key)
            if route.operation.scope in expand_scopes([scope]):
                assert answer.status_code not in {401, 403}, (route, scope)
            else:
                assert (answer.status_code, answer.json()["type"]) == (403, "forbidden"), (
                    route,
                    scope,
                )
                assert repr(str(route.operation.scope)) in answer.json()["detail"]


@pytest.mark.parametrize("key", [None, "nonsense"])
def test_what_is_public_is_the_same_for_everybody(address: str, key: str | None) -> None:
    """A page is sent to whoever asks, with a bad key as without one, and takes nothing."""
    for route in routes():
        if route in GUARDED:
            continue
        answer = ask(address, route.method, route.path, key)

        # The files of pages and documentation have names, and "a" is none of them.
        assert answer.status_code == (404 if "{name}" in route.template else 200), route
        assert ask(address, "POST", route.path, key).status_code == 405, route

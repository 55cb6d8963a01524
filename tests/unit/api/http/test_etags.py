"""Shapes that every resource shares: which requests are the same one, asked again."""

from litestar.types import Scope

from service.access.keys import Principal
from service.api.http.etags import read_request_key
from service.usecases.idempotency import RequestKey


def keyed(body: bytes, principal: Principal | None = None) -> RequestKey | None:
    """Return the key of a request with this body."""
    scope: Scope = {"headers": [(b"idempotency-key", b"k")], "state": {"principal": principal}}  # type: ignore[assignment]  # the rest is not read
    return read_request_key(scope, body, route="POST /v1/measurements")


def test_a_body_is_what_it_says_and_not_how_it_is_written() -> None:
    """White space and the order of members mean nothing in JSON, and clients keep neither; the
    order of a list does.
    """
    first = keyed(b'{"a": [1, 2], "b": {"c": "\xc3\xa9", "d": 1.5}}')

    assert keyed(b'{"b":{"d":1.5,"c":"\\u00e9"},"a":[1,2]}') == first
    assert keyed(b'{"a": [2, 1], "b": {"c": "\xc3\xa9", "d": 1.5}}') != first
    assert keyed(b"") == RequestKey(key="k", route="POST /v1/measurements", body=b"")


def test_everybody_has_keys_of_his_own() -> None:
    """Two who share a server both begin with job-1; a key that replaces another by its name goes on
    where that was.
    """
    old, new, other = (
        Principal(name=name, scopes=frozenset(), key_id=number)
        for name, number in (("a", "1"), ("a", "2"), ("b", "3"))
    )
    token = Principal(name="oidc:ann", scopes=frozenset(), subject="https://issuer ann")

    assert keyed(b"{}", old) == keyed(b"{}", new)
    assert len({keyed(b"{}", who) for who in (old, other, token, None)}) == 4
    assert keyed(b"{}", Principal(name="local", scopes=frozenset())) == keyed(b"{}")

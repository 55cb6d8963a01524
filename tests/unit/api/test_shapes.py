"""Shapes that every resource shares: which requests are the same one, asked again."""

from litestar.types import Scope

from service.api.shapes import request_key
from service.usecases.idempotency import RequestKey


def keyed(body: bytes) -> RequestKey | None:
    """Return the key of a request with this body."""
    scope: Scope = {"headers": [(b"idempotency-key", b"k")]}  # type: ignore[assignment]  # the rest is not read
    return request_key(scope, body, route="POST /v1/measurements")


def test_a_body_is_what_it_says_and_not_how_it_is_written() -> None:
    """White space and the order of members mean nothing in JSON, and clients keep neither; the order of a list does."""
    first = keyed(b'{"a": [1, 2], "b": {"c": "\xc3\xa9", "d": 1.5}}')

    assert keyed(b'{"b":{"d":1.5,"c":"\\u00e9"},"a":[1,2]}') == first
    assert keyed(b'{"a": [2, 1], "b": {"c": "\xc3\xa9", "d": 1.5}}') != first
    assert keyed(b"") == RequestKey(key="k", route="POST /v1/measurements", body=b"")

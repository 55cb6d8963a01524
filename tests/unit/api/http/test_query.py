"""Query strings: read by type, and refused by name."""

import pytest
from msgspec import UNSET, UnsetType

from service.api.http.decoding import read_query
from service.base.errors import InvalidRequestError
from service.contract.schemas.fields import ModelName, PageLimit, Strict
from tests.unit.api.http.test_decoding import scope


class Query(Strict, frozen=True, kw_only=True):
    """Parameters of a list."""

    limit: PageLimit = 50
    model: ModelName | UnsetType = UNSET
    exact: bool = False
    confidence: float | None = 0.95


def query(text: str) -> Query:
    """Decode a query string."""
    return read_query(scope(query=text.encode()), Query)


def test_query_is_read_by_type() -> None:
    """Digits are a number where a number belongs and text where text belongs."""
    assert query("limit=5&model=7&exact=true&confidence=null") == Query(
        limit=5, model="7", exact=True, confidence=None
    )


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("limt=5", "limt"),
        ("limit=5&limit=6", "limit"),
        ("limit=5.0", "limit"),
        ("limit=+5", "limit"),
        ("limit=05", "limit"),
        ("limit=", "limit"),
        ("exact=1", "exact"),
        ("confidence=inf", "confidence"),
        ("model=%00", "model"),
        ("model=a%0A", "model"),
    ],
)
def test_query_is_strict(text: str, field: str) -> None:
    """Unknown, repeated and mistyped parameters are refused with their name."""
    with pytest.raises(InvalidRequestError) as caught:
        query(text)

    assert caught.value.extra["errors"][0]["field"] == field  # type: ignore[index]  # a list of dicts


def test_broken_query_strings_are_refused() -> None:
    """Invalid UTF-8 and missing equals signs are no parameters."""
    for text in ("model=%ff", "limit", "model=\u00e4"):
        with pytest.raises(InvalidRequestError):
            query(text)

"""GET /v1/gpus: the catalogue, page by page."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.catalog.gpus import list_gpus
from tests.unit.api.builders import served


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def page(client: TestClient[Any], **query: str | int) -> dict[str, Any]:
    """Return one page of the catalogue."""
    answer = client.get("/v1/gpus", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_catalogue_comes_in_pages(client: TestClient[Any]) -> None:
    """The pages together are the whole, which one page holds as well."""
    known = [entry.name for entry in list_gpus()]
    whole = page(client, limit=200)
    found = page(client, limit=10)
    names = [gpu["name"] for gpu in found["items"]]
    while found["next_cursor"] is not None:
        found = page(client, limit=10, cursor=found["next_cursor"])
        names += [gpu["name"] for gpu in found["items"]]

    assert names == known == [gpu["name"] for gpu in whole["items"]]
    assert whole["next_cursor"] is None


@pytest.mark.parametrize("query", [{"limit": 0}, {"limit": 201}, {"cursor": "abc"}])
def test_a_page_that_does_not_exist_is_refused(
    client: TestClient[Any], query: dict[str, str | int]
) -> None:
    """A size beyond the bounds and a cursor from nowhere are no page."""
    assert client.get("/v1/gpus", params=query).status_code == 422

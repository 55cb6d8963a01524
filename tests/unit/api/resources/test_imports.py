"""What POST /v1/measurements/import refuses before anything is asked of a database."""

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources.measurements.imports import EXAMPLE
from service.contract.schemas.imports.measurements import MAX_IMPORT_BYTES
from tests.unit.api.builders import served

Json = dict[str, Any]
URL = "/v1/measurements/import"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def without(*names: str, **more: object) -> Json:
    """Return the example without some words, and with others."""
    return {name: value for name, value in EXAMPLE.items() if name not in names} | more


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        (without("content"), "content", "give the file once"),
        (without(content_base64="aGVsbG8="), "content", "give the file once"),
        (without("content", content_base64="*"), "content_base64", "no base64"),
        (without(content="hello"), "content", "no format is recognised"),
        (without(content="JobID|State\n1|x\n"), "content", "line 1: has no column TRESUsageInMax"),
        (without(format="dcgm"), "format", "unknown value 'dcgm'"),
        (without("model"), "model", "say what ran"),
        (without("workload"), "workload", "say what ran"),
        (without(gpu="A100"), "gpu", "is ambiguous"),
        (without(model="llama-3.2-1c"), "model", "Did you mean"),
        (without(jobs=[]), "jobs", "length >= 1"),
        (without(jobs=[{"model": "llama-3.2-1b"}]), "jobs[0].match", "required"),
        (without(match={"user": "me"}), "match.user", "unknown field"),
        (without(dry_run="yes"), "dry_run", "expected"),
        (without("content", content_base64=base64.b64encode(pickle.dumps(Iterator)).decode()), "content_base64", "GLOBAL"),  # noqa: E501
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused(
    client: TestClient[Any], body: Json, field: str, says: str
) -> None:
    """The problem names the field, what is wrong with it and what would be right."""
    answer = client.post(URL, json=body)
    document = answer.json()

    assert answer.status_code == 422
    assert document["errors"][0]["field"] == field
    assert says in document["detail"]


def test_a_file_may_be_larger_than_other_bodies(client: TestClient[Any]) -> None:
    """A log of two megabytes is read; one beyond the limit is not."""
    log = "INFO nothing of interest\n" * 80_000

    assert client.post(URL, json=without(content=log, format="vllm")).status_code == 422
    large = client.post(
        URL, content=b" " * (MAX_IMPORT_BYTES + 1), headers={"content-type": "application/json"}
    )
    assert large.status_code == 413


def test_an_import_has_no_other_method(client: TestClient[Any]) -> None:
    """Its path is no measurement."""
    answer = client.get(URL)

    assert (answer.status_code, answer.headers["allow"]) == (405, "OPTIONS, POST")


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ("format=csv&limit=5", "limit"),
        ("format=csv&cursor=abc", "cursor"),
        ("error_at_least=0.5&error_at_most=0.1", "error_at_least"),
        ("error_at_least=-1", "error_at_least"),
        ("sort=errors", "sort"),
        ("task=trian", "task"),
        ("source=me", "source"),
        ("family=%00", "family"),
    ],
)
def test_a_wrong_list_is_refused(client: TestClient[Any], query: str, field: str) -> None:
    """Words of the list are as strict as any."""
    answer = client.get(f"/v1/measurements?{query}")

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field

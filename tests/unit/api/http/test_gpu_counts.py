"""A how-many answer as a bare number, for shells."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

QUESTION = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM4-80GB",
    "task": "train",
    "sequence_length": "4096",
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def test_a_shell_gets_a_number_or_a_status_that_fails(client: TestClient[Any]) -> None:
    """``as=count`` is one number as text; where none is enough curl -f fails, by a status that no
    refusal has, with one line that says why; a bad question stays a refusal.
    """
    query = QUESTION | {"as": "count"}
    document = client.get("/v1/how-many", params=QUESTION).json()
    number = client.get("/v1/how-many", params=query)
    none = client.get("/v1/how-many", params=query | {"gpu": "L4", "max_gpus": "1"})
    bad = client.get("/v1/how-many", params=query | {"gpu": "L44"})

    assert (number.status_code, int(number.text)) == (
        200,
        document["num_gpus"],
    )
    assert (none.status_code, none.json()["type"]) == (406, "nothing-fits")
    assert "L4: 1 GPU is not enough" in none.json()["detail"]
    assert "\n" not in none.json()["detail"]
    assert (bad.status_code, bad.json()["type"]) == (422, "unknown-gpu")


def test_a_family_is_one_number_only_where_its_skus_agree(client: TestClient[Any]) -> None:
    """A number that is right of one SKU alone is no answer: the refusal names each."""
    query = QUESTION | {"as": "count", "gpu": "A100"}
    differing = client.get("/v1/how-many", params=query)
    agreeing = client.get("/v1/how-many", params=query | {"model": "gpt2", "sequence_length": "64"})

    assert differing.status_code == 422
    assert "A100-SXM4-40GB: " in differing.json()["detail"]
    assert [error["field"] for error in differing.json()["errors"]] == ["gpu"]
    assert agreeing.text == "1\n"


def test_a_body_is_answered_by_a_number_as_well(client: TestClient[Any]) -> None:
    """What no query can spell is asked by a body and counted alike; json overrides Accept."""
    body = {
        "model": "gpt2",
        "gpu": "H200",
        "workload": {"task": "train", "sequence_length": 64},
    }
    number = client.post("/v1/how-many", params={"as": "count"}, json=body)
    document = client.post(
        "/v1/how-many", params={"as": "json"}, json=body, headers={"accept": "text/plain"}
    )
    refused = client.post("/v1/how-many", params={"as": "number"}, json=body)

    assert number.text == "1\n"
    assert document.json()["num_gpus"] == 1
    assert [error["field"] for error in refused.json()["errors"]] == ["as"]

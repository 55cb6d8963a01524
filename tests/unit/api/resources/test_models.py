"""GET /v1/models/{name} of the catalogue, which needs no database."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

PATH = "/v1/models/llama-2-7b"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def test_the_catalogue_has_one_revision(client: TestClient[Any]) -> None:
    """The first is what is there; no other one is made up."""
    other = client.get(PATH, params={"revision": 2})

    assert client.get(PATH, params={"revision": 1}).json() == client.get(PATH).json()
    assert (other.status_code, other.json()["type"]) == (404, "model-not-found")


@pytest.mark.parametrize("revision", ["x", "1.0", "0", "-1", "", "99999999999999999999"])
def test_a_revision_is_a_positive_integer(client: TestClient[Any], revision: str) -> None:
    """Anything else breaks the schema, whatever the model is."""
    answer = client.get(PATH, params={"revision": revision})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "revision"


def test_counts_are_those_of_the_contract(client: TestClient[Any]) -> None:
    """Llama-2-7B's own numbers: the embedding is the input table and the head beside it; a tied one
    counts once.
    """
    separate = client.get("/v1/models/llama-2-7b").json()
    tied = client.get("/v1/models/gpt2").json()

    assert separate["parameters"]["total"] == separate["parameters"]["active"] == 6_738_415_616
    assert separate["parameters"]["embedding"] == 2 * 32_000 * 4096
    assert separate["weight_bytes"] == {"fp32": 26_953_662_464, "bf16": 13_476_831_232}
    assert tied["parameters"]["embedding"] == 50_257 * 768


@pytest.mark.parametrize(
    "name", ["GPT2", "openai-community/gpt2", "openai-community%2Fgpt2", "OpenAI-Community/GPT2"]
)
def test_a_model_is_found_by_every_name_that_a_question_may_use(
    client: TestClient[Any], name: str
) -> None:
    """An alias, a Hugging Face id and any case of letters show the entry that a fit would take."""
    assert client.get(f"/v1/models/{name}").json() == client.get("/v1/models/gpt2").json()


@pytest.mark.parametrize("name", ["nobody/gpt2", "openai-community/%2E%2E", "a/b%00"])
def test_an_id_that_nobody_has_is_not_found(client: TestClient[Any], name: str) -> None:
    """The catalogue alone has ids of the hub, and the refusal says where they are listed."""
    answer = client.get(f"/v1/models/{name}")

    assert (answer.status_code, answer.json()["type"]) == (404, "model-not-found")
    assert client.get("/v1/models/openai-community/gpt2", params={"revision": 2}).status_code == 404


@pytest.mark.parametrize("name", ["gpt2", "openai-community/gpt2"])
def test_who_has_a_model_is_not_sent_it_again(client: TestClient[Any], name: str) -> None:
    """304 names the version and has no body; another version is sent whole."""
    etag = client.get(f"/v1/models/{name}").headers["etag"]
    same = client.get(f"/v1/models/{name}", headers={"If-None-Match": etag})
    other = client.get(f"/v1/models/{name}", headers={"If-None-Match": '"older"'})

    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", etag)
    assert (other.status_code, other.json()["name"]) == (200, "gpt2")


@pytest.mark.parametrize("name", ["gpt2", "GPT2"])
def test_a_model_of_the_catalogue_is_not_changed_under_any_of_its_names(
    client: TestClient[Any], name: str
) -> None:
    """What GET shows is refused with the reason, and is not said to be missing."""
    answer = client.delete(f"/v1/models/{name}", headers={"If-Match": "*"})

    assert (answer.status_code, answer.json()["type"]) == (409, "catalogue-model")

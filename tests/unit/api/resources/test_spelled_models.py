"""Models over HTTP by size, words and address: read where one is meant, else a question."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.estimator.model.families.registry import architecture_from_config
from service.usecases.stored_specs.spec_cache import NamedModel, SpecCache, load_catalogue_model
from tests.unit.api.builders import FIT, changed, parts, served
from tests.unit.usecases.builders import TINY_LLAMA

SPELT = "https://huggingface.co/meta-llama/Llama-2-7b-hf/tree/main"
SEARCH = {"gpus": ["H200"], "workload": FIT["workload"] | {"method": "lora"}}
CEILING = {"gpu": "H200", "maximize": "micro_batch_size", "workload": SEARCH["workload"]}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def test_a_spelt_model_has_the_answer_of_its_name(client: TestClient[Any]) -> None:
    """Everything but the first assumption, which says what was read."""
    named = client.post("/v1/fit", json=FIT).json()
    spelt = client.post("/v1/fit", json=changed("model", SPELT)).json()

    note, *others = spelt.pop("assumptions")
    assert note == f"model = llama-2-7b, as {SPELT!r} is read"
    assert others == named.pop("assumptions")
    assert spelt == named


def test_every_question_says_how_it_read_the_model(client: TestClient[Any]) -> None:
    """Fits of a batch, numbers, plans and ceilings as well."""
    batch = client.post("/v1/fit/batch", json={"items": [changed("model", "13B")]}).json()
    query = "model=13B&gpu=H200&task=train&sequence_length=512&method=lora"
    number = client.get(f"/v1/how-many?{query}").json()
    plan = client.post("/v1/plans", json={"model": "13B", **SEARCH}).json()
    ceiling = client.post("/v1/ceilings", json={"model": "13B", **CEILING}).json()

    notes = [answer["assumptions"][0] for answer in (batch["items"][0], number, plan, ceiling)]
    assert len(set(notes)) == 1
    assert "1.3e10 parameters" in notes[0]
    assert "llama-2-13b" in notes[0]


def test_a_size_is_the_inline_model_of_that_size(client: TestClient[Any]) -> None:
    """The two ways to say a number of parameters and nothing else are one."""
    inline = client.post("/v1/fit", json=changed("model", {"num_parameters": 13 * 10**9})).json()
    spelt = client.post("/v1/fit", json=changed("model", "13B")).json()

    assert spelt["per_gpu"] == inline["per_gpu"]


def test_several_models_are_a_question(client: TestClient[Any]) -> None:
    """The refusal has the names, in words and as a list."""
    refused = client.post("/v1/fit", json=changed("model", "llama 70b"))

    problem = refused.json()
    assert (refused.status_code, problem["type"]) == (422, "unknown-model")
    assert problem["candidates"] == ["llama-2-70b", "llama-3-70b", "llama-3.1-70b", "llama-3.3-70b"]
    assert problem["errors"][0]["field"] == "model"


def ask_alone(client: TestClient[Any], question: dict[str, Any]) -> dict[str, Any]:
    """Ask a question of its own."""
    answer: dict[str, Any] = client.post("/v1/fit", json=question).json()
    return answer


def ask_in_batch(client: TestClient[Any], question: dict[str, Any]) -> dict[str, Any]:
    """Ask a question as the only item of a batch, in full."""
    body = {"items": [question], "detail": "full"}
    answer: dict[str, Any] = client.post("/v1/fit/batch", json=body).json()["items"][0]
    return answer


@pytest.mark.parametrize("ask", [ask_alone, ask_in_batch])
def test_a_stored_name_comes_before_what_it_might_mean(
    ask: Callable[[TestClient[Any], dict[str, Any]], dict[str, Any]],
) -> None:
    """A model that somebody stores as `llama2-7b` is meant from then on, also where the question
    was answered before.
    """
    stored: dict[str, NamedModel] = {}
    specs = SpecCache(
        read_catalogue=load_catalogue_model,
        read_stored=stored.get,
        read_versions=lambda _names: {},
        known_names=tuple,
    )
    question = changed("model", "llama2-7b")
    with served(replace(parts(), specs=specs)) as client:
        before = [ask(client, question) for _ in range(3)]
        stored["llama2-7b"] = NamedModel(
            name="llama2-7b",
            revision=1,
            version="1",
            architecture=architecture_from_config(TINY_LLAMA),
        )
        after = ask(client, question)

    assert before[0]["assumptions"][0].startswith("model = llama-2-7b")
    assert not any(line.startswith("model = ") for line in after["assumptions"])
    assert after["per_gpu"]["device_bytes"] < before[0]["per_gpu"]["device_bytes"]

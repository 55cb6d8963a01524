"""GET /v1/how-many without a database: the number, the reasons, and the words of a query."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.http.negotiation import is_text_preferred
from service.contract.schemas.queries.how_many import BODY_WORDS
from tests.unit.api.builders import served

GUIDE = (Path(__file__).parents[4] / "docs" / "api.md").read_text(encoding="utf-8")
QUESTION = {
    "model": "llama-2-7b",
    "gpu": "A100-SXM4-80GB",
    "task": "train",
    "method": "full",
    "sequence_length": "4096",
    "attention": "flash",
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def ask(client: TestClient[Any], **changes: str | None) -> dict[str, Any]:
    """Return the answer to a legal question."""
    query = {name: value for name, value in (QUESTION | changes).items() if value is not None}
    answer = client.get("/v1/how-many", params=query)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def test_the_number_comes_with_its_reasons(client: TestClient[Any]) -> None:
    """Every smaller number is rejected in words, and what fits is a complete configuration."""
    found = ask(client)

    assert found["num_gpus"] > 1
    assert [miss["num_gpus"] for miss in found["rejected"]] == list(range(1, found["num_gpus"]))
    assert all(miss["reason"] and miss["missing_bytes"] > 0 for miss in found["rejected"])
    assert found["searched"]["layouts"] > 0


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"gpu": None, "memory_bytes": "80Gi"},
        {"method": "lora", "lora_variant": "rslora"},
    ],
)
def test_a_candidate_sent_back_gives_the_same_bytes(
    client: TestClient[Any], changes: dict[str, str | None]
) -> None:
    """GPU, layout and workload of a candidate are complete requests, and say all that the question
    said.
    """
    found = ask(client, **changes)
    variant = changes.get("lora_variant")

    assert found["candidates"]
    for candidate in found["candidates"]:
        assert candidate["workload"].get("lora", {}).get("variant") == variant
        assert (
            candidate["gpu"]
            == found["gpu"]
            == ({"memory_bytes": 80 * 2**30} if "memory_bytes" in changes else QUESTION["gpu"])
        )
        body = {
            "model": "llama-2-7b",
            "gpu": candidate["gpu"],
            "layout": candidate["layout"],
            "workload": candidate["workload"],
        }
        fit = client.post("/v1/fit", json=body).json()

        assert fit["per_gpu"]["device_bytes"] == candidate["device_bytes"]
        assert fit["verdict"] == candidate["verdict"]


def test_a_candidate_carries_the_warnings_of_its_fit(client: TestClient[Any]) -> None:
    """A number of GPUs that have no hardware for bf16 does not come without saying so, and nobody
    is given it unasked.
    """
    for gpu, precision, warned in (
        ("V100-SXM2-32GB", "bf16_mixed", True),
        ("V100-SXM2-32GB", None, False),
    ):
        (candidate, *_) = ask(
            client, gpu=gpu, attention=None, sequence_length="256", precision=precision
        )["candidates"]

        assert any("no hardware for bf16" in line for line in candidate["warnings"]) is warned
        assert candidate["workload"]["precision"] == (precision or "fp16_mixed")


def test_a_kernel_that_no_gpu_named_has_is_refused(client: TestClient[Any]) -> None:
    """Flash attention runs from compute capability 8.0 on, and the refusal says what runs
    instead.
    """
    refused = client.get("/v1/how-many", params=QUESTION | {"gpu": "T4"})

    assert refused.status_code == 422
    assert (
        "needs compute capability 8.0, and T4 has 7.5: say attention sdpa"
        in refused.json()["detail"]
    )


def test_what_the_query_says_is_kept(client: TestClient[Any]) -> None:
    """A stage that is named is not searched, and neither it nor anything that was searched is an
    assumption.
    """
    found = ask(client, zero_stage="1", lora_rank="8", method="lora")

    assert {candidate["layout"]["zero_stage"] for candidate in found["candidates"]} == {1}
    assert {candidate["workload"]["lora"]["rank"] for candidate in found["candidates"]} == {8}
    assumed = {line.partition(" = ")[0] for line in found["assumptions"]}
    assert "workload.optimizer" in assumed
    assert not {"layout.zero_stage", "layout.data_parallel", "workload.micro_batch_size"} & assumed


def test_the_framework_is_that_of_a_fit(client: TestClient[Any]) -> None:
    """A word that says whose code runs is a default, not something to search."""
    answer = ask(client, sequence_length="2048", method="lora")

    assert "workload.framework = transformers" in answer["assumptions"]
    assert {candidate["workload"]["framework"] for candidate in answer["candidates"]} == {
        "transformers"
    }


def test_a_family_is_answered_once_per_sku(client: TestClient[Any]) -> None:
    """Here the question is open, and every answer is right."""
    answers = ask(client, gpu="A100")["answers"]
    numbers = {answer["gpu"]: answer["num_gpus"] for answer in answers}

    assert numbers["A100-SXM4-40GB"] > numbers["A100-SXM4-80GB"]


def test_text_is_the_bare_number(client: TestClient[Any]) -> None:
    """As text one number, for a family one line each, and a word where no number is enough."""
    headers = {"accept": "text/plain"}
    number = client.get("/v1/how-many", params=QUESTION, headers=headers)
    family = client.get("/v1/how-many", params=QUESTION | {"gpu": "A100"}, headers=headers)
    none = client.get(
        "/v1/how-many", params=QUESTION | {"gpu": "L4", "max_gpus": "1"}, headers=headers
    )

    assert number.headers["content-type"].startswith("text/plain")
    assert int(number.text) == ask(client)["num_gpus"]
    assert len(family.text.splitlines()) == len(ask(client, gpu="A100")["answers"])
    assert none.text == "none\n"


def test_no_number_is_an_answer(client: TestClient[Any]) -> None:
    """When nothing fits the answer is the closest miss and the smallest change that would help."""
    found = ask(client, gpu="L4", max_gpus="1")

    assert found["num_gpus"] is None
    assert found["reason"]
    assert found["closest"]["missing_bytes"] >= found["closest"]["deficit_bytes"] > 0


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"sequence_lenght": "4096"}, "sequence_length"),
        ({"gpu": None}, "gpu=A100-SXM4-80GB"),
        ({"memory_bytes": "80Gi"}, "once"),
        ({"gpu": None, "memory_bytes": "80GB"}, "two readings"),
        ({"gpu": "A10000"}, "catalogue"),
        ({"model": "lama-2-7b"}, "llama-2-7b"),
        ({"task": "trian"}, "train"),
        ({"sequence_length": "4096.0"}, "an integer"),
        ({"num_sequences": "4"}, "num_sequences"),
        ({"max_gpus": "0"}, ">= 1"),
        ({"confidence": "0.4"}, "confidence is 0.4; it must be 0.5 or more"),
    ],
)
def test_bad_queries_say_what_would_be_right(
    client: TestClient[Any], changes: dict[str, str | None], says: str
) -> None:
    """Parameters are as strict as a body."""
    query = {name: value for name, value in (QUESTION | changes).items() if value is not None}
    answer = client.get("/v1/how-many", params=query)

    assert answer.status_code == 422
    assert says in answer.json()["detail"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"sequence_length": None}, "sequence_length"),
        ({"num_sequences": "4"}, "num_sequences"),
        ({"sequence_length": "0"}, "sequence_length"),
        ({"gpu": None, "memory_bytes": "80GB"}, "memory_bytes"),
        ({"tensor_parallel": "3"}, "tensor_parallel"),
        ({"data_parallel": "16", "max_gpus": "8"}, "max_gpus"),
        ({"model": "lama-2-7b"}, "model"),
    ],
)
def test_refusals_name_the_parameter(
    client: TestClient[Any], changes: dict[str, str | None], field: str
) -> None:
    """Whoever refuses, the field is what the query calls it."""
    query = {name: value for name, value in (QUESTION | changes).items() if value is not None}
    answer = client.get("/v1/how-many", params=query)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


@pytest.mark.parametrize(
    ("accept", "text"),
    [
        (None, False),
        ("*/*", False),
        ("application/json", False),
        ("text/plain", True),
        ("text/*", True),
        ("text/plain;q=0.5, application/json;q=0.4", True),
        ("text/plain;q=0.4, application/json", False),
        ("text/html, */*;q=0.1", False),
        ("text/plain;q=0", False),
        ("text/plain, */*;q=0.8", True),
        ("nonsense;q=x", False),
    ],
)
def test_plain_text_only_for_those_who_prefer_it(accept: str | None, *, text: bool) -> None:
    """Without a preference the answer is JSON."""
    assert is_text_preferred(accept) is text


def test_a_larger_gpu_is_named_where_it_helps(client: TestClient[Any]) -> None:
    """A replica that may not be split fits on a larger GPU, named in the words of this request:
    asked, it is enough.
    """
    words = {
        "task": "serve",
        "engine": "vllm",
        "num_sequences": "8",
        "prompt_tokens": "2048",
        "output_tokens": "256",
    }
    words |= {"model": "llama-3.1-70b", "gpu": "A100-SXM4-40GB"}
    asked: dict[str, str | None] = {
        "method": None,
        "sequence_length": None,
        "attention": None,
        **words,
    }
    split = {"tensor_parallel": "1", "pipeline_parallel": "1"}

    change = ask(client, **(asked | split))["smallest_change"]

    assert set(change["change"]) == {"gpu"}
    assert ask(client, **(asked | split | change["change"]))["num_gpus"] == change["num_gpus"]


@pytest.mark.parametrize("word", sorted(BODY_WORDS))
def test_what_a_query_cannot_spell_is_told_where_to_go(client: TestClient[Any], word: str) -> None:
    """A list or an object is refused with the resource that takes it, and the guide says so
    beforehand.
    """
    answer = client.get("/v1/how-many", params={**QUESTION, word: "cpu"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == word
    assert "POST /v1/how-many" in answer.json()["detail"]
    assert f"`{word}`" in GUIDE.partition("### How many")[2].partition("###")[0]

"""POST /v1/ceilings without a database: the largest value, the answer there, and what one more
lacks.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

QUESTION: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {
        "task": "train",
        "method": "lora",
        "precision": "bf16",
        "sequence_length": 2048,
        "attention": "flash",
    },
    "gpu": "A100-SXM4-80GB",
    "maximize": "micro_batch_size",
}
SERVING = {"task": "serve", "prompt_tokens": 1024, "output_tokens": 256}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def _body(changes: dict[str, object]) -> dict[str, object]:
    return {name: value for name, value in (QUESTION | changes).items() if value is not None}


def ask(client: TestClient[Any], **changes: object) -> dict[str, Any]:
    """Return the answer to a legal question."""
    answer = client.post("/v1/ceilings", json=_body(changes))
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(client: TestClient[Any], **changes: object) -> str:
    """Return why a question is refused."""
    answer = client.post("/v1/ceilings", json=_body(changes))
    assert answer.status_code == 422, answer.text
    return str(answer.json()["detail"])


@pytest.mark.parametrize("engine", ["transformers", "vllm", "sglang", "tensorrt_llm"])
def test_a_ceiling_fits_whatever_the_engine(client: TestClient[Any], engine: str) -> None:
    """A pool that is only tight is no more enough than a tight device: the value fits, and one more
    does not.
    """
    workload = SERVING | {"engine": engine}
    value = ask(client, maximize="num_sequences", workload=workload)["value"]

    verdicts = [
        client.post(
            "/v1/fit",
            json={
                "model": QUESTION["model"],
                "gpu": QUESTION["gpu"],
                "workload": workload | {"num_sequences": number},
            },
        ).json()["verdict"]
        for number in (value, value + 1)
    ]
    assert verdicts[0] == "fits"
    assert verdicts[1] != "fits"


def test_a_ceiling_is_that_of_the_same_fit(client: TestClient[Any]) -> None:
    """A framework that is left out is the one of a fit, and both answers name it."""
    workload = {**QUESTION["workload"], "activation_checkpointing": "full"}
    answer = ask(client, workload=workload)
    body = {"model": QUESTION["model"], "gpu": QUESTION["gpu"]}
    fits = [
        client.post(
            "/v1/fit", json=body | {"workload": workload | {"micro_batch_size": value}}
        ).json()
        for value in (answer["value"], answer["value"] + 1)
    ]

    assert "workload.framework = transformers" in answer["assumptions"]
    assert "workload.framework = transformers" in fits[0]["assumptions"]
    assert [fit["verdict"] == "fits" for fit in fits] == [True, False]


def test_a_ceiling_names_what_it_searched(client: TestClient[Any]) -> None:
    """Checkpointing that is left open is no default: the answer says that it was searched."""
    lines = ask(client)["assumptions"]

    (searched,) = (line for line in lines if line.startswith("searched"))
    assert "activation_checkpointing" in searched
    assert "framework" not in searched


@pytest.mark.parametrize(
    ("maximize", "workload", "word"),
    [
        ("micro_batch_size", QUESTION["workload"], "micro_batch_size"),
        (
            "sequence_length",
            {"task": "train", "method": "lora", "precision": "bf16"},
            "sequence_length",
        ),
        ("num_sequences", SERVING, "num_sequences"),
        ("sequence_length", {"task": "serve", "num_sequences": 4}, "prompt_tokens"),
    ],
)
def test_the_ceiling_fits_and_the_next_does_not(
    client: TestClient[Any], maximize: str, workload: dict[str, Any], word: str
) -> None:
    """Asked as a fit, the value fits and one more does not: both sides are proved by the same
    model.
    """
    found = ask(client, maximize=maximize, workload=workload)

    asked = {"model": QUESTION["model"], "gpu": QUESTION["gpu"], "layout": found["layout"]}
    at = client.post("/v1/fit", json={**asked, "workload": found["workload"]}).json()
    beyond = client.post(
        "/v1/fit", json={**asked, "workload": found["workload"] | {word: found["next"]["value"]}}
    ).json()
    assert found["workload"][word] == found["value"] == found["next"]["value"] - 1
    assert at["verdict"] == "fits"
    assert at["per_gpu"] == found["fit"]["per_gpu"]
    assert beyond["verdict"] != "fits"
    assert found["next"]["missing_bytes"] > 0


def test_what_the_request_fixes_is_not_searched(client: TestClient[Any]) -> None:
    """Checkpointing makes room; a request that forbids it gets a smaller ceiling."""
    fixed = QUESTION["workload"] | {"activation_checkpointing": "none"}

    searched, pinned = ask(client), ask(client, workload=fixed)

    assert searched["workload"]["activation_checkpointing"] == "full"
    assert pinned["workload"]["activation_checkpointing"] == "none"
    assert searched["value"] > pinned["value"]


def test_a_rank_has_a_ceiling(client: TestClient[Any]) -> None:
    """Larger adapters need more of everything."""
    found = ask(
        client, maximize="lora_rank", workload=QUESTION["workload"] | {"micro_batch_size": 8}
    )

    assert found["workload"]["lora"]["rank"] == found["value"]
    assert found["next"]["value"] == found["value"] + 1


def test_a_card_has_a_largest_model(client: TestClient[Any]) -> None:
    """Without a model the question is how large one may be; more memory holds a larger one."""
    workload = {"task": "train", "precision": "bf16", "sequence_length": 1024}

    small, large = (
        ask(
            client,
            model=None,
            maximize="num_parameters",
            workload=workload,
            gpu={"memory_bytes": size},
        )["value"]
        for size in ("24Gi", "80Gi")
    )

    assert small is not None
    assert small < large


def test_a_model_that_is_named_beside_its_size_changes_nothing_and_is_told(
    client: TestClient[Any],
) -> None:
    """As with every word that is maximised: what the request says of it is no bound."""
    workload = {"task": "train", "precision": "bf16", "sequence_length": 1024}
    asked = {"maximize": "num_parameters", "workload": workload, "gpu": {"memory_bytes": "24Gi"}}
    alone, *named = (
        ask(client, model=model, **asked) for model in (None, "gpt2", {"num_parameters": 10**9})
    )

    assert {found["value"] for found in named} == {alone["value"]}
    assert all(set(found["assumptions"]) - set(alone["assumptions"]) for found in named)


def test_nothing_fits_is_an_answer(client: TestClient[Any]) -> None:
    """A model whose weights alone are too large has no ceiling, and the answer says what is missing
    for the least value.
    """
    found = ask(client, model="llama-2-70b")

    assert found["value"] is None
    assert found["fit"] is None
    assert found["next"]["value"] == 1
    assert found["next"]["deficit_bytes"] > 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"maximize": "num_sequences"}, "serve"),
        ({"maximize": "micro_batch_size", "workload": SERVING | {"num_sequences": 1}}, "train"),
        (
            {"maximize": "lora_rank", "workload": {"task": "train", "sequence_length": 8}},
            "adapters",
        ),
        ({"model": None}, "model"),
        ({"maximize": "num_parameters", "model": "gpt-9"}, "gpt-9"),
        ({"maximize": "micro_batch"}, "micro_batch_size"),
        ({"workload": {"task": "train", "method": "lora"}}, "sequence_length"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(
    client: TestClient[Any], changes: dict[str, Any], said: str
) -> None:
    """A word of the other task, adapters that are not there, a model that is missing or too
    many.
    """
    assert said in refused(client, **changes)


def test_a_global_batch_and_its_micro_batch_cannot_both_be_asked(client: TestClient[Any]) -> None:
    """One is made of the other; accumulation is kept as it is said, and what it means is told."""
    workload = {"task": "train", "sequence_length": 512, "gradient_accumulation_steps": 2}
    asked = {"model": "smollm2-135m", "maximize": "global_batch_size", "num_gpus": 2}
    found = ask(client, workload=workload, **asked)
    batch, layout = found["workload"], found["layout"]

    assert found["value"] == batch["micro_batch_size"] * 2 * layout["data_parallel"]
    assert found["next"]["value"] == found["value"] + 2 * layout["data_parallel"]
    assert any("accumulating takes no more memory" in line for line in found["assumptions"])
    assert "leave micro_batch_size out" in refused(
        client, workload=workload | {"micro_batch_size": 4}, **asked
    )


def test_lengths_of_the_data_leave_no_length_to_find(client: TestClient[Any]) -> None:
    """A sequence is as long as the data say; packed ones fill a row of any length."""
    train = QUESTION["workload"] | {"sequence_lengths": {"512": 3, "128": 9}}
    train |= {"micro_batch_size": 1}
    del train["sequence_length"]

    refusal = refused(client, maximize="sequence_length", workload=train)
    packed = ask(client, maximize="sequence_length", workload=train | {"packing": "packed"})

    assert "leave sequence_lengths out, or maximize another word" in refusal
    assert packed["value"] > 512

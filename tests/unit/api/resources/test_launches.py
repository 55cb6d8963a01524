"""POST /v1/launches/import: what people hold becomes a question that POST /v1/fit answers."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

GPU = "H100-SXM5-80GB"
SFT: dict[str, Any] = {
    "max_length": 2048,
    "per_device_train_batch_size": 2,
    "learning_rate": 1e-4,
    "peft": {"r": 16, "target_modules": "all-linear"},
    "model_kwargs": {"dtype": "bfloat16"},
    "frobnicate": 3,
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def read(client: TestClient[Any], **request: object) -> dict[str, Any]:
    """Return the reading of a launch."""
    answer = client.post("/v1/launches/import", json=request)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


def refused(client: TestClient[Any], **request: object) -> dict[str, Any]:
    """Return the problem document of a launch that is refused."""
    answer = client.post("/v1/launches/import", json=request)
    assert answer.status_code == 422, answer.text
    return dict(answer.json())


def test_what_was_read_is_answered(client: TestClient[Any]) -> None:
    """The question goes to POST /v1/fit as it is, and every setting is accounted for."""
    reading = read(client, launcher="trl_sft", arguments=SFT, model="llama-3-8b", gpu=GPU)
    answer = client.post("/v1/fit", json=reading["question"] | {"remedies": False})

    assert (reading["missing"], reading["refusal"]) == ([], None)
    assert reading["ignored"] == ["frobnicate"]
    assert reading["without_effect"] == ["learning_rate"]
    assert {"key": "max_length", "value": 2048, "where": "arguments"}.items() <= next(
        one for one in reading["read"] if one["key"] == "max_length"
    ).items()
    assert answer.status_code == 200, answer.text
    assert answer.json()["verdict"] == "fits"


def test_defaults_are_those_of_the_release(client: TestClient[Any]) -> None:
    """What the launch leaves out is read too, with whose default it is."""
    reading = read(
        client,
        launcher="trl_sft",
        arguments={},
        model="llama-3-8b",
        gpu=GPU,
        files=[{"name": "a.yaml", "content": "output_dir: x"}],
    )

    defaults = {one["key"]: one["where"] for one in reading["read"]}

    assert reading["question"]["workload"]["sequence_length"] == 1024
    assert reading["question"]["workload"]["activation_checkpointing"] == "full"
    assert "TRL 1.16" in defaults["loss_type"]
    assert reading["versions"]["trl"] == "1.16.0"


def test_what_is_missing_is_asked(client: TestClient[Any]) -> None:
    """A plain Trainer says no length; whoever asks says it by the field's name."""
    arguments = {"per_device_train_batch_size": 1}
    reading = read(client, launcher="trainer", arguments=arguments, model="gpt2")
    full = read(
        client,
        launcher="trainer",
        arguments=arguments,
        model="gpt2",
        gpu=GPU,
        workload={"sequence_length": 512},
    )

    assert set(reading["missing"]) == {"gpu", "workload.sequence_length"}
    assert {"gpu", "workload.sequence_length"} <= {one["field"] for one in reading["questions"]}
    assert full["missing"] == []
    assert full["question"]["workload"]["sequence_length"] == 512


def test_a_default_may_be_said_otherwise_and_a_setting_not(client: TestClient[Any]) -> None:
    """The request answers what is open; it does not contradict the launch."""
    request = {"launcher": "trl_sft", "model": "gpt2", "gpu": GPU}
    reading = read(client, **request, arguments={"packing": False}, workload={"sequence_length": 9})
    problem = refused(
        client, **request, arguments={"max_length": 8}, workload={"sequence_length": 9}
    )

    assert reading["question"]["workload"]["sequence_length"] == 9
    assert "sequence_length is 8 by max_length (arguments) in the launch and 9" in problem["detail"]
    assert problem["errors"][0]["field"] == "workload.sequence_length"


def test_an_unknown_model_is_asked_for(client: TestClient[Any]) -> None:
    """A path of another machine is no name here; the rest is read."""
    reading = read(
        client, launcher="trl_sft", arguments={"model_name_or_path": "/data/mine"}, gpu=GPU
    )

    assert "model" in {one["field"] for one in reading["questions"]}


@pytest.mark.parametrize(
    ("request_body", "message"),
    [
        ({}, "nothing to read"),
        ({"arguments": {"foo": 1}}, "no launcher is known by it"),
        ({"files": [{"name": "a.yaml", "content": "a: ["}], "launcher": "trainer"}, "a.yaml:"),
        ({"command": "python 'a", "launcher": "trainer"}, "No closing quotation"),
        (
            {"arguments": {"per_device_train_batch_size": "x"}, "launcher": "trainer"},
            "whole number",
        ),
        ({"arguments": {"a": 1}, "launcher": "spark"}, "spark"),
    ],
    ids=["nothing", "unknown", "broken", "quote", "value", "launcher"],
)
def test_what_cannot_be_read_is_refused_in_words(
    client: TestClient[Any], request_body: dict[str, Any], message: str
) -> None:
    """A problem document says what is wrong, and where."""
    problem = refused(client, **request_body)

    assert message in str(problem)


def test_a_pasted_script_is_read_as_one(client: TestClient[Any]) -> None:
    """Variables stand in their places, and what a pipe goes to is no argument."""
    command = 'MODEL=gpt2; vllm serve "$MODEL" \\\n  --max-model-len 512 2>&1 | tee log'

    answer = read(client, command=command, gpu=GPU)

    assert answer["question"]["model"] == "gpt2"
    assert answer["question"]["workload"]["max_model_len"] == 512
    assert answer["ignored"] == []

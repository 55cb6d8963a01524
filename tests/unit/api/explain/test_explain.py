"""POST /v1/explain: explained, refused, bounded."""

import base64
import pickle
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources.explain import EXAMPLE
from service.contract.schemas.explain.limits import MAX_EXPLAIN_BYTES
from tests.unit.api.builders import FIT, served

URL = "/v1/explain"
LAUNCH = {
    "launcher": "trainer",
    "arguments": {"per_device_train_batch_size": 1, "bf16": True},
    "model": "gpt2",
    "gpu": "T4",
    "workload": {"sequence_length": 128},
}
Json = dict[str, Any]


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def test_the_example_is_explained(client: TestClient[Any]) -> None:
    """What was read, who had what, why, and what would have fitted."""
    response = client.post(URL, json=EXAMPLE)
    answer = response.json()

    assert response.status_code == 200
    assert (answer["memory"], answer["speaker"], answer["gpu"]) == ("gpu", "torch", 2)
    assert answer["causes"][0]["name"] == "fragmentation"
    assert answer["changes"][0]["setting"] == "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True"
    assert answer["balance"]["missing"]["bytes"] == pytest.approx(1.92 * 2**30, rel=1e-6)
    assert {each["quantity"] for each in answer["read"]} >= {"requested_bytes", "total_bytes"}
    assert answer["processes"] == [
        {"pid": None, "memory": answer["balance"]["process"], "is_failing": True}
    ]
    assert answer["prediction"] is None


def test_a_question_adds_its_prediction(client: TestClient[Any]) -> None:
    """As POST /v1/fit answers it, on the memory that the failure shows."""
    answer = client.post(URL, json=EXAMPLE | {"question": FIT | {"include": []}}).json()

    assert answer["causes"][0]["name"] == "smaller_gpu"
    assert answer["prediction"]["fit"]["verdict"] == "does_not_fit"
    assert len(answer["prediction"]["comparisons"]) == 3


def test_a_launch_asks_the_question(client: TestClient[Any]) -> None:
    """As POST /v1/launches/import reads it, in place of our words."""
    answer = client.post(URL, json=EXAMPLE | {"launch": LAUNCH}).json()

    assert answer["prediction"]["fit"]["verdict"] == "fits"
    assert {each["agreement"] for each in answer["prediction"]["comparisons"]} == {"above"}
    assert "the question fits on what this GPU had" in " ".join(answer["prediction"]["notes"])


@pytest.mark.parametrize(
    ("body", "field", "says"),
    [
        ({}, "content", "give the file once"),
        (EXAMPLE | {"content_base64": "aGVsbG8="}, "content", "give the file once"),
        ({"content_base64": "*"}, "content_base64", "no base64"),
        (EXAMPLE | {"question": FIT | {"gpu": "A100"}}, "gpu", "A100-SXM4-40GB"),
        (
            EXAMPLE | {"question": FIT | {"workload": {"task": "train", "sequence_lenght": 9}}},
            "question.workload.sequence_lenght",
            "sequence_length",
        ),
        ({"contents": "x"}, "contents", "content"),
        (EXAMPLE | {"launch": LAUNCH, "question": FIT}, "launch", "say what ran once"),
        (
            EXAMPLE | {"launch": {name: LAUNCH[name] for name in ("launcher", "arguments")}},
            "launch.model",
            "the launch does not say ",
        ),
    ],
)
def test_a_refusal_names_the_field(
    client: TestClient[Any], body: Json, field: str, says: str
) -> None:
    """With the path in the body, and what would be right."""
    response = client.post(URL, json=body)
    problem = response.json()

    assert response.status_code == 422
    assert field in problem["errors"][0]["field"]
    assert says in problem["detail"]


def test_a_text_that_tells_nothing_lists_what_is_read(client: TestClient[Any]) -> None:
    """The problem has a type of its own."""
    response = client.post(URL, json={"content": "hello"})
    problem = response.json()

    assert (response.status_code, problem["type"]) == (422, "nothing-to-explain")
    assert len(problem["kinds"]) == 5


def test_a_pickle_runs_nothing(client: TestClient[Any]) -> None:
    """It is read by the interpreter of snapshots, which loads no code."""
    encoded = base64.b64encode(pickle.dumps(print)).decode()

    response = client.post(URL, json={"content_base64": encoded})

    assert response.status_code == 422
    assert "would load or call code" in response.json()["detail"]


def test_a_body_of_a_hundred_megabytes_is_refused(client: TestClient[Any]) -> None:
    """Before it is read."""
    headers = {"content-type": "application/json", "content-length": "100000000"}

    response = client.post(URL, content=b"{", headers=headers)

    assert MAX_EXPLAIN_BYTES < 100_000_000
    assert response.status_code == 413
    assert response.json()["type"] == "body-too-large"

"""GGUF files over HTTP: the header of one is a model of any question."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.contract.schemas.models import ModelSource
from service.contract.to_answer.models import build_gguf
from tests.unit.api.builders import served
from tests.unit.formats.checkpoints.files import read_expected, read_model

SERVE = {"task": "serve", "engine": "llama_cpp", "num_sequences": 2, "prompt_tokens": 64}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def document(name: str = "mixtral") -> dict[str, Any]:
    """Return the document of a file."""
    found: dict[str, Any] = json.loads(json.dumps(read_model(name).describe()))
    return found


def ask(client: TestClient[Any], path: str = "/v1/fit", **model: Any) -> Any:  # noqa: ANN401 - any fields
    """Return the answer to a question about a model that is brought along."""
    gpus = {"gpus": ["L4"]} if path == "/v1/plans" else {"gpu": "L4"}
    extra = {"maximize": "num_sequences"} if path == "/v1/ceilings" else {}
    serve = {**SERVE, "output_tokens": 64}
    serve |= {"prompt_tokens": 64}
    if extra:
        serve.pop("num_sequences")
    return client.post(path, json={"model": model, "workload": serve, **gpus, **extra})


def test_a_file_is_answered_with_its_own_bytes(client: TestClient[Any]) -> None:
    """Weights are the tensors of the file; where it was read is among the assumptions."""
    answer = ask(client, gguf=document(), origin="./mixtral.gguf").json()

    parts = {part["name"]: part for part in answer["per_gpu"]["components"]}
    table = next(t.bytes for t in read_model("mixtral").tensors if t.name == "token_embd.weight")
    assert parts["weights"]["bytes"] == read_expected()["mixtral"]["bytes"] - table
    assert answer["assumptions"][0] == "model read from ./mixtral.gguf"


@pytest.mark.parametrize("path", ["/v1/plans", "/v1/ceilings"])
def test_other_questions_take_a_file_too(client: TestClient[Any], path: str) -> None:
    """Plans and ceilings are asked the same way."""
    answer = ask(client, path, gguf=document("llama"))

    assert answer.status_code == 200, answer.text


def test_a_batch_takes_files(client: TestClient[Any]) -> None:
    """Each item may bring its own."""
    items = [
        {"model": {"gguf": document(name)}, "workload": SERVE, "gpu": "L4"}
        for name in ("llama", "qwen3")
    ]

    answers = client.post("/v1/fit/batch", json={"items": items}).json()["items"]

    assert [answer["verdict"] for answer in answers] == ["fits", "fits"]


@pytest.mark.parametrize(
    ("change", "field", "words"),
    [
        (
            {"metadata": {"general.architecture": "rwkv7"}},
            "model.gguf.metadata.general.architecture",
            "bytes in",
        ),
        ({"tensors": []}, "model.gguf.tensors", "one tensor at least"),
        ({"tensors": [{"name": 1}]}, "model.gguf.tensors[0]", "name, type and shape"),
    ],
)
def test_a_file_that_is_none_is_a_problem(
    client: TestClient[Any], change: dict[str, Any], field: str, words: str
) -> None:
    """The document points at the fault."""
    answer = ask(client, gguf=document() | change)

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field
    assert words in answer.json()["detail"]


def test_a_file_keeps_its_head(client: TestClient[Any]) -> None:
    """Another head is refused, as no file has two."""
    answer = ask(client, gguf=document(), head="reward")

    assert answer.status_code == 422
    assert "leave head out" in answer.json()["detail"]


def test_one_model_is_one_source(client: TestClient[Any]) -> None:
    """A file and a config are two."""
    answer = ask(client, gguf=document(), num_parameters=7)

    assert answer.status_code == 422
    assert "exactly one of" in answer.json()["detail"]


def test_a_stored_file_is_told_tensor_by_tensor() -> None:
    """By tensor, by format, by kind and by layer: each sum is the whole file."""
    answer = build_gguf(document())

    assert answer is not None
    total = read_expected()["mixtral"]["bytes"]
    assert answer.total_bytes == total == sum(tensor.bytes for tensor in answer.tensors)
    assert total == sum(answer.by_type.values()) == sum(answer.by_kind.values())
    assert len(answer.by_layer) == 3
    assert build_gguf(None) is None


def test_files_of_a_pasted_config_are_compared(client: TestClient[Any]) -> None:
    """What the index says is held against the tree, and the difference is among the assumptions."""
    config = {"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "vocab_size": 128}
    config |= {"num_hidden_layers": 2, "num_attention_heads": 4, "torch_dtype": "bfloat16"}
    index = {"metadata": {"total_size": 5}, "weight_map": {}}

    lines = ask(client, hf_config=config, safetensors_index=index).json()["assumptions"]

    assert lines[0].startswith("the checkpoint holds 5 bytes")
    assert "gguf" in ModelSource.__struct_fields__

"""Batches over HTTP, with stored models among the questions."""

from typing import Any

import httpx

TRAIN = {"task": "train", "sequence_length": 64}
SMALL: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": 256,
    "max_position_embeddings": 128,
}


def _question(model: str, length: int) -> dict[str, Any]:
    return {"model": model, "workload": TRAIN | {"sequence_length": length}, "gpu": "H200"}


def test_stored_models_are_asked_in_batches_as_in_single_fits(client: httpx.Client) -> None:
    """A stored name, a catalogue name and one that nobody has, in one call: each answered as a
    single fit is.
    """
    stored = client.post("/v1/models", json={"name": "batched", "source": {"hf_config": SMALL}})
    assert stored.status_code == 201, stored.text
    questions = [
        _question("batched", 32),
        _question("gpt2", 64),
        _question("nobodys", 64),
        _question("batched", 48),
    ]
    singles = [client.post("/v1/fit", json=question).json() for question in questions]
    answers = client.post("/v1/fit/batch", json={"items": questions, "detail": "full"}).json()[
        "items"
    ]

    assert answers[:2] + answers[3:] == singles[:2] + singles[3:]
    assert answers[2]["problem"]["type"] == singles[2]["type"] == "unknown-model"


def test_thousands_of_fits_come_back_in_order(client: httpx.Client) -> None:
    """Two thousand questions, all different: each answer has the bytes of its own length."""
    questions = [
        _question("gpt2", 1 + index % 1000) | {"gpu": {"memory_bytes": 2**30 + index}}
        for index in range(2_000)
    ]
    found = client.post("/v1/fit/batch", json={"items": questions}, timeout=120)
    answers = found.json()["items"]

    assert found.status_code == 200
    assert [answer["usable_bytes"] for answer in answers] == [
        2**30 + index for index in range(2_000)
    ]
    assert answers[999]["per_gpu"]["allocated_bytes"] > answers[0]["per_gpu"]["allocated_bytes"]

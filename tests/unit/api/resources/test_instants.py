"""What is alive at each instant: the parts of a bar add up to it, for every way to train and every
engine.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

SERVE = {"task": "serve", "num_sequences": 4, "prompt_tokens": 512, "output_tokens": 64}
QUESTIONS: dict[str, dict[str, Any]] = {
    "transformers": {"task": "train", "sequence_length": 2048},
    "lora": {
        "task": "train",
        "sequence_length": 2048,
        "method": "lora",
        "activation_checkpointing": "full",
    },
    "torchtitan": {"task": "train", "sequence_length": 2048, "framework": "torchtitan"},
    "megatron": {
        "task": "train",
        "sequence_length": 2048,
        "framework": "megatron",
        "precision": "megatron_bf16",
    },
    "generate": SERVE,
    "vllm": {**SERVE, "engine": "vllm", "max_model_len": 1024},
    "sglang": {**SERVE, "engine": "sglang", "engine_version": "0.5.5", "max_model_len": 1024},
    "tensorrt_llm": {
        **SERVE,
        "engine": "tensorrt_llm",
        "engine_version": "1.0.0",
        "max_model_len": 1024,
    },
    "llama_cpp": {**SERVE, "engine": "llama_cpp", "max_model_len": 1024},
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


@pytest.mark.parametrize("asked", QUESTIONS)
def test_parts_add_up_to_their_instant(client: TestClient[Any], asked: str) -> None:
    """Each instant is the sum of what is alive then, and the highest is made of the components that
    explain the peak.
    """
    answered = client.post(
        "/v1/fit",
        json={"model": "llama-2-7b", "gpu": "H100-SXM5-80GB", "workload": QUESTIONS[asked]},
    )
    assert answered.status_code == 200, answered.text
    per_gpu = answered.json()["per_gpu"]
    components = {part["name"]: part["bytes"] for part in per_gpu["components"]}
    peak = next(
        instant for instant in per_gpu["instants"] if instant["name"] == per_gpu["peak_instant"]
    )

    assert [instant["allocated_bytes"] for instant in per_gpu["instants"]] == [
        sum(instant["parts"].values()) for instant in per_gpu["instants"]
    ]
    assert all(
        bytes_ > 0 for instant in per_gpu["instants"] for bytes_ in instant["parts"].values()
    )
    assert all(components[name] >= bytes_ for name, bytes_ in peak["parts"].items())


def test_a_decode_step_of_a_pool_has_its_hidden_states(client: TestClient[Any]) -> None:
    """Beside weights and pool a step of vLLM holds the hidden states of its sequences: 4 x 4096 in
    2 bytes.
    """
    question = {"model": "llama-2-7b", "gpu": "H100-SXM5-80GB", "workload": QUESTIONS["vllm"]}
    decode = client.post("/v1/fit", json=question).json()["per_gpu"]["instants"][-1]["parts"]

    assert set(decode) == {"weights", "kv_cache", "sampler_state", "activations"}
    assert decode["activations"] == 4 * 4096 * 2


def test_encoders_say_their_parts_too(client: TestClient[Any]) -> None:
    """A model without a cache has weights and what its forward needs."""
    question = {
        "model": "bert-base",
        "gpu": "T4",
        "workload": {"task": "serve", "num_sequences": 8, "prompt_tokens": 256},
    }
    instants = client.post("/v1/fit", json=question).json()["per_gpu"]["instants"]

    assert [sum(one["parts"].values()) for one in instants] == [
        one["allocated_bytes"] for one in instants
    ]


@pytest.mark.parametrize("path", ["/v1/fit", "/v1/fit/batch"])
def test_remedies_can_be_left_out(client: TestClient[Any], path: str) -> None:
    """Who reprices at every key asks for the answer alone: the same, without what would help."""
    question = {
        "model": "llama-2-7b",
        "gpu": "A100-SXM4-80GB",
        "workload": {"task": "train", "sequence_length": 512},
    }

    def ask(**words: bool) -> dict[str, Any]:
        asked = {**question, **words}
        body = asked if path == "/v1/fit" else {"items": [asked], "detail": "full"}
        found = client.post(path, json=body).json()
        return dict(found if path == "/v1/fit" else found["items"][0])

    helped, alone = ask(), ask(remedies=False)

    assert helped["verdict"] == "does_not_fit"
    assert helped["remedies"]
    assert alone == {**helped, "remedies": [], "remedy_search": None}

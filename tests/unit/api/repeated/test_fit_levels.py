"""Fits at other levels of confidence are answered from what is kept, to the byte."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from service.usecases.questions.fit import AnsweredQuestions
from tests.unit.api.builders import parts, served

TRAIN: dict[str, Any] = {"task": "train", "sequence_length": 64}
SERVE: dict[str, Any] = {"task": "serve", "num_sequences": 2, "prompt_tokens": 64}
LEVELS = (0.95, 0.5, 0.681, 0.77, 0.9)
QUESTIONS: dict[str, dict[str, Any]] = {
    "full": {"workload": TRAIN},
    "numbers alone": {"workload": TRAIN, "include": []},
    "components alone": {"workload": TRAIN, "include": ["components"]},
    "without remedies": {"workload": TRAIN, "remedies": False, "gpu": {"memory_bytes": "2GiB"}},
    "an unknown GPU": {"workload": TRAIN, "gpu": {"memory_bytes": "64GiB"}},
    "LoRA": {"workload": TRAIN | {"method": "lora"}},
    "compiled": {"model": "qwen3-0.6b", "workload": TRAIN | {"compile": True}},
    "sharded": {"workload": TRAIN, "layout": {"data_parallel": 8, "sharding": "fsdp2"}},
    "GRPO": {
        "model": "qwen3-0.6b",
        "workload": TRAIN | {"trainer": "grpo", "rollout": {"engine": "transformers"}},
    },
    "Megatron": {"model": "llama-3.2-1b", "workload": TRAIN | {"framework": "megatron"}},
    "torchtitan": {"model": "llama-3.2-1b", "workload": TRAIN | {"framework": "torchtitan"}},
    "served": {"workload": SERVE},
    "vLLM": {"workload": SERVE | {"engine": "vllm"}},
    "llama.cpp": {"model": "llama-3.2-1b", "workload": SERVE | {"engine": "llama_cpp"}},
}


Servers = tuple[TestClient[Any], TestClient[Any]]


@pytest.fixture(scope="module", name="servers")
def start() -> Iterator[Servers]:
    """Serve the API twice over the same recordings, once without a mind for what was answered."""
    keeping = parts()
    with (
        served(keeping) as client,
        served(replace(keeping, answered_questions=AnsweredQuestions(capacity=0))) as other,
    ):
        yield client, other


@pytest.mark.parametrize("name", QUESTIONS)
def test_every_level_has_the_bytes_of_an_answer_of_its_own(servers: Servers, name: str) -> None:
    """Whatever runs, and whatever is shown of it: on the event loop as beside it."""
    question = {"model": "gpt2", "gpu": "H200"} | QUESTIONS[name]
    for level in LEVELS:
        asked = question | {"confidence": level}
        answers = [client.post("/v1/fit", json=asked) for client in servers]

        assert answers[0].status_code == 200, answers[0].text
        assert answers[0].content == answers[1].content


def test_a_verdict_of_one_level_is_not_that_of_another() -> None:
    """What is tight at one may fit at another, and has no remedies there."""
    question = {"model": "gpt2", "workload": TRAIN, "gpu": {"memory_bytes": 3_950_000_000}}
    with served() as client:
        answers = [
            client.post("/v1/fit", json=question | {"confidence": level}).json()
            for level in (0.5, 0.95, 0.5, 0.6)
        ]

    assert [answer["verdict"] for answer in answers] == ["fits", "tight", "fits", "fits"]
    assert [bool(answer["remedies"]) for answer in answers] == [False, True, False, False]

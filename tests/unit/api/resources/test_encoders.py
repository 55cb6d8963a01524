"""Models with an encoder go through every question that decoders go through."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

_GPU = "A100-SXM4-80GB"
_QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "t5, trained": ("t5-base", {"task": "train", "sequence_length": 512, "decoder_length": 128}),
    "t5, served": (
        "t5-base",
        {"task": "serve", "num_sequences": 8, "prompt_tokens": 512, "output_tokens": 64},
    ),
    "whisper, trained": (
        "whisper-large-v3",
        {"task": "train", "sequence_length": 128, "audio_frames": 3000},
    ),
    "whisper, served": (
        "whisper-tiny",
        {"task": "serve", "num_sequences": 8, "prompt_tokens": 4, "output_tokens": 64},
    ),
    "bert, served": ("bert-base", {"task": "serve", "num_sequences": 8, "prompt_tokens": 512}),
}


@pytest.fixture(name="client", scope="module")
def start() -> Iterator[TestClient[Any]]:
    """Return a client of the service."""
    with served() as client:
        yield client


@pytest.mark.parametrize("question", _QUESTIONS)
def test_it_fits_or_says_what_would_make_it(client: TestClient[Any], question: str) -> None:
    """The answer explains itself to the byte, and counts of GPUs follow from it."""
    model, workload = _QUESTIONS[question]

    answer = client.post("/v1/fit", json={"model": model, "workload": workload, "gpu": _GPU}).json()
    count = client.get("/v1/how-many", params={"model": model, "gpu": _GPU, **workload})

    components = answer["per_gpu"]["components"]
    assert sum(component["bytes"] for component in components) == answer["per_gpu"]["device_bytes"]
    assert count.json()["num_gpus"] >= 1


def test_a_batch_has_a_ceiling(client: TestClient[Any]) -> None:
    """A decoder's length is part of what is asked, whatever is searched."""
    model, workload = _QUESTIONS["t5, trained"]
    asked = {"model": model, "workload": workload, "gpu": _GPU, "maximize": "micro_batch_size"}

    short = client.post("/v1/ceilings", json=asked).json()
    long = client.post(
        "/v1/ceilings", json=asked | {"workload": workload | {"decoder_length": 512}}
    ).json()

    assert short["value"] > long["value"] > 1


def test_what_is_assumed_is_said(client: TestClient[Any]) -> None:
    """A request that leaves the decoder's length out is told which one it got."""
    request = {
        "model": "t5-base",
        "workload": {"task": "train", "sequence_length": 512},
        "gpu": _GPU,
    }

    answer = client.post("/v1/fit", json=request).json()

    assert (
        "decoder_length = 512: the request does not say how many tokens the decoder has"
        in answer["warnings"]
    )

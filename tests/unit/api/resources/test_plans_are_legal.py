"""Plans are held against the tables of what frameworks and engines can combine."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from litestar.testing import TestClient

from service.catalog.models import load_architecture, resolve_model
from service.contract.schemas.fit import FitRequest
from service.contract.to_question.fits import read_fit
from service.contract.to_question.models import ResolvedModel
from service.estimator.rules.violations import find_violation
from tests.unit.api.builders import served

TRAIN = {"task": "train", "sequence_length": 1024}
MEGATRON = TRAIN | {"framework": "megatron"}
SERVE = {"task": "serve", "engine": "vllm", "num_sequences": 32, "prompt_tokens": 512}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


@pytest.mark.parametrize(
    "workload", [TRAIN, TRAIN | {"method": "lora"}, SERVE, SERVE | {"engine": "sglang"}]
)
@pytest.mark.parametrize("name", ["gpt2-xl", "llama-3-8b", "mixtral-8x7b"])
def test_every_candidate_can_run(
    client: TestClient[Any], name: str, workload: dict[str, Any]
) -> None:
    """What a search proposes breaks no rule of the framework that it names."""
    _hold(client, name, workload)


@pytest.mark.parametrize("name", ["llama-3-8b", "mixtral-8x7b"])
def test_every_candidate_of_megatron_can_run(client: TestClient[Any], name: str) -> None:
    """Four degrees divide heads, layers, experts and sequences as Megatron-LM demands."""
    _hold(client, name, MEGATRON)


def _hold(client: TestClient[Any], name: str, workload: dict[str, Any]) -> None:
    gpu, model = "A100-SXM4-80GB", load_architecture(resolve_model(name))
    question = {"model": name, "workload": workload, "gpus": [gpu], "constraints": {"max_gpus": 64}}
    candidates = client.post("/v1/plans", json=question).json()["candidates"]

    assert candidates
    for candidate in candidates:
        words = {
            "model": name,
            "gpu": gpu,
            "workload": candidate["workload"],
            "layout": candidate["layout"],
        }
        asked = read_fit(msgspec.convert(words, FitRequest), ResolvedModel(architecture=model))
        assert find_violation(model, asked.workload, asked.layout) is None

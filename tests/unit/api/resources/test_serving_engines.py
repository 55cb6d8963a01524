"""Serving engines over HTTP: the pool in the answer, what helps, and plans that split a replica."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

VLLM: dict[str, Any] = {
    "task": "serve",
    "engine": "vllm",
    "engine_version": "0.19.0",
    "num_sequences": 16,
    "prompt_tokens": 1024,
    "output_tokens": 256,
    "max_model_len": 4096,
}
ASKED: dict[str, Any] = {"model": "llama-2-7b", "gpu": "H100-SXM5-80GB", "workload": VLLM}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def fit(client: TestClient[Any], **words: Any) -> dict[str, Any]:  # noqa: ANN401 - each word has its own type
    """Return the answer to the question with other words in its workload."""
    layout = words.pop("layout", {})
    found = client.post("/v1/fit", json=ASKED | {"workload": VLLM | words, "layout": layout})
    assert found.status_code == 200, found.text
    return dict(found.json())


def test_an_answer_tells_the_pool(client: TestClient[Any]) -> None:
    """What the engine needs stands beside its budget, and what its pool holds."""
    serving = fit(client)["serving"]

    assert serving["required_bytes"] < serving["budget_bytes"]
    assert serving["kv_pool_tokens"] * serving["kv_bytes_per_token"] == serving["kv_pool_bytes"]
    assert serving["max_num_sequences"] == serving["kv_pool_tokens"] // 1280
    assert serving["max_concurrency"] == pytest.approx(serving["kv_pool_tokens"] / 4096)


@pytest.mark.parametrize("engine", ["vllm", "sglang", "tensorrt_llm", "llama_cpp"])
def test_every_engine_explains_itself(client: TestClient[Any], engine: str) -> None:
    """Components sum to the device's bytes, each with a formula and a source."""
    words = (
        {"engine_version": "0.5.5" if engine == "sglang" else "1.0.0"}
        if engine in {"sglang", "tensorrt_llm"}
        else {}
    )
    workload = VLLM | {"engine": engine} | words
    if engine == "llama_cpp":
        del workload["engine_version"]
    found = client.post("/v1/fit", json=ASKED | {"workload": workload}).json()
    components = found["per_gpu"]["components"]

    assert sum(component["bytes"] for component in components) == found["per_gpu"]["device_bytes"]
    assert all(component["formula"] and component["source"] for component in components)
    assert len({component["name"] for component in components}) == len(components)
    assert not any(line.startswith("workload.cache") for line in found["assumptions"])


def test_too_many_sequences_are_helped(client: TestClient[Any]) -> None:
    """Fewer sequences, a cache of 8 bits and more ranks are tried on the model itself."""
    found = fit(client, num_sequences=160)
    changes = {name for remedy in found["remedies"] for name in remedy["change"]}

    assert found["verdict"] == "does_not_fit"
    assert {"num_sequences", "kv_cache_dtype", "tensor_parallel"} <= changes
    assert any(remedy["verdict"] == "fits" for remedy in found["remedies"])


def test_a_draft_model_costs_room(client: TestClient[Any]) -> None:
    """A request names its draft; the pool is what the draft leaves of it."""
    alone = fit(client)["serving"]
    beside = fit(client, speculative={"num_tokens": 4, "draft": "tinyllama-1.1b"})["serving"]

    assert beside["kv_pool_bytes"] < alone["kv_pool_bytes"]
    assert beside["required_bytes"] > alone["required_bytes"]


def test_an_unknown_draft_names_its_field(client: TestClient[Any]) -> None:
    """The problem document points into the request."""
    workload = VLLM | {"speculative": {"num_tokens": 4, "draft": "tinylama"}}
    found = client.post("/v1/fit", json=ASKED | {"workload": workload})

    assert found.status_code == 422
    assert found.json()["errors"][0]["field"] == "workload.speculative.draft"


def test_how_many_splits_a_replica(client: TestClient[Any]) -> None:
    """The plan's layout is complete: sent back it fits."""
    query = {
        **{name: str(value) for name, value in VLLM.items()},
        "model": "llama-2-70b",
        "gpu": "H100-SXM5-80GB",
    }
    found = client.get("/v1/how-many", params=query, headers={"accept": "application/json"}).json()
    best = found["candidates"][0]
    again = client.post(
        "/v1/fit",
        json={
            "model": "llama-2-70b",
            "gpu": best["gpu"],
            "workload": best["workload"],
            "layout": best["layout"],
        },
    ).json()

    layout = best["layout"]
    assert found["num_gpus"] == layout["tensor_parallel"] * layout["pipeline_parallel"] > 1
    assert again["verdict"] == "fits"
    assert not any("tensor_parallel" in line for line in found["assumptions"])

"""Plans over HTTP: on kinds of GPUs and on a stored cluster, whose free GPUs bound them."""

from typing import Any

import httpx

QUESTION: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096},
    "constraints": {"frameworks": ["deepspeed"]},
}
POOL: dict[str, Any] = {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "price_per_gpu_hour": 1.5}


def test_a_plan_on_a_cluster_stays_within_what_is_free(client: httpx.Client) -> None:
    """Eight GPUs of which four are taken hold the four that are asked at most, at the pool's price."""
    nodes = [{"name": "n1", "allocated_gpus": 4}]
    assert client.post("/v1/clusters", json={"name": "planned", "pools": [{**POOL, "nodes": nodes}]}).status_code == 201

    found = client.post("/v1/plans", json={**QUESTION, "cluster": "planned", "objective": "fastest"}).json()
    anywhere = client.post("/v1/plans", json={**QUESTION, "gpus": ["A100-SXM4-80GB"]}).json()

    assert anywhere["num_gpus"] <= found["num_gpus"] <= 4
    assert found["candidates"][0]["cost_per_hour"] == 1.5 * found["num_gpus"]
    assert found["candidates"][0]["price_source"] == "pool a100"
    assert found["alternatives"][0]["pool"] == "a100"


def test_an_unknown_cluster_is_refused(client: httpx.Client) -> None:
    """It is named in a body, so that the body is wrong and not the path."""
    answer = client.post("/v1/plans", json={**QUESTION, "cluster": "nowhere"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "cluster"

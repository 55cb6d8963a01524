"""Plans over HTTP: on kinds of GPUs and on a stored cluster, whose free GPUs bound them."""

from typing import Any

import httpx

QUESTION: dict[str, Any] = {
    "model": "llama-2-7b",
    "workload": {"task": "train", "sequence_length": 4096},
    "constraints": {"frameworks": ["deepspeed"]},
}
POOL: dict[str, Any] = {
    "name": "a100",
    "gpu": "A100-SXM4-80GB",
    "gpus_per_node": 8,
    "price_per_gpu_hour": 1.5,
}


def test_a_plan_on_a_cluster_stays_within_what_is_free(client: httpx.Client) -> None:
    """Eight GPUs of which four are taken hold the four that are asked at most, at the pool's
    price.
    """
    nodes = [{"name": "n1", "allocated_gpus": 4}]
    assert (
        client.post(
            "/v1/clusters", json={"name": "planned", "pools": [{**POOL, "nodes": nodes}]}
        ).status_code
        == 201
    )

    found = client.post(
        "/v1/plans", json={**QUESTION, "cluster": "planned", "objective": "fastest"}
    ).json()
    anywhere = client.post("/v1/plans", json={**QUESTION, "gpus": ["A100-SXM4-80GB"]}).json()

    assert anywhere["num_gpus"] <= found["num_gpus"] <= 4
    assert found["candidates"][0]["cost_per_hour"] == 1.5 * found["num_gpus"]
    assert found["candidates"][0]["price_source"] == "pool a100"
    assert found["alternatives"][0]["pool"] == "a100"
    nodes_are_usual = "layout.gpus_per_node = 8"
    assert (
        nodes_are_usual in anywhere["assumptions"],
        nodes_are_usual in found["assumptions"],
    ) == (True, False)


def test_an_unknown_cluster_is_refused(client: httpx.Client) -> None:
    """It is named in a body, so that the body is wrong and not the path."""
    answer = client.post("/v1/plans", json={**QUESTION, "cluster": "nowhere"})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "cluster"


def test_a_plan_is_placed_and_reserved_until_the_next_has_to_wait(client: httpx.Client) -> None:
    """The placement of a plan is a reservation as it is; then the same plan waits, and is told for
    whom and until when.
    """
    nodes = [
        {"name": "n1", "allocations": [{"holder": "vision", "num_gpus": 6}]},
        {"name": "n2"},
        {"name": "n3", "state": "drained"},
    ]
    client.post("/v1/clusters", json={"name": "planned", "pools": [{**POOL, "nodes": nodes}]})
    asked = {**QUESTION, "cluster": "planned"}
    later = client.post("/v1/plans", json=asked).json()
    candidate = later["candidates"][0]
    placement = candidate["placement"]

    assert placement["status"] == "placed"
    assert (
        placement["num_gpus"]
        == candidate["num_gpus"]
        == sum(node["num_gpus"] for node in placement["nodes"])
    )
    assert placement["cost_per_hour"] == candidate["cost_per_hour"]
    named = ",".join(node["node"] for node in placement["nodes"])
    assert f"#SBATCH --nodelist={named}\n" in candidate["requests"]["slurm"]
    reserved = 0
    while placement["status"] == "placed":
        body = {"holder": "alice", "placement": placement, "expires_in_s": 3600}
        assert client.post("/v1/clusters/planned/reservations", json=body).status_code == 201
        reserved += placement["num_gpus"]
        later = client.post("/v1/plans", json=asked).json()
        placement = later["candidates"][0]["placement"]

    waits = placement
    assert (waits["status"], later["num_gpus"], later["reason"]) == (
        "not_today",
        candidate["num_gpus"],
        waits["reason"],
    )
    assert waits["reason"].startswith(f"not today: {10 - reserved} of 24 A100-SXM4-80GB are free")
    held = {(part["hold"], part["holder"]): part["num_gpus"] for part in waits["held"]}
    assert held == {("drained", None): 8, ("reserved", "alice"): reserved, ("used", "vision"): 6}
    assert waits["possible_at"] is not None


def test_what_the_empty_cluster_cannot_hold_is_no_plan(client: httpx.Client) -> None:
    """A cluster that is too small when it is empty says what is missing, not who is on it."""
    client.post(
        "/v1/clusters",
        json={
            "name": "planned",
            "pools": [{**POOL, "nodes": [{"name": "n1", "allocated_gpus": 8}]}],
        },
    )
    asked = {**QUESTION, "model": "llama-2-70b", "cluster": "planned"}
    found = client.post("/v1/plans", json=asked).json()

    assert (found["num_gpus"], found["candidates"]) == (None, [])
    assert found["closest"]["missing_bytes"] > 0

"""Clusters imported over HTTP: seen before stored, stored by version, planned on now and at all."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from tests.unit.formats.inventories.listing_samples import load_text

PATH = "/v1/clusters/lab/import"
SLURM = load_text("slurm_26_05_scontrol.json")
JOBS = json.loads(load_text("slurm_26_05_squeue.json"))
PLAN = {
    "workload": {"task": "train", "precision": "bf16_mixed", "sequence_length": 512},
    "cluster": "lab",
}


def send(client: httpx.Client, etag: str | None = None, **body: Any) -> httpx.Response:  # noqa: ANN401
    """Send an import."""
    headers = {} if etag is None else {"If-Match": etag}
    return client.post(PATH, json={"content": SLURM, **body}, headers=headers)


def test_an_import_is_seen_before_it_is_stored(client: httpx.Client) -> None:
    """A dry run stores nothing; the first import creates, each later one names what was seen."""
    dry = send(client)
    assert (dry.status_code, dry.json()["num_added"], dry.json()["applied"]) == (200, 4, False)
    assert client.get("/v1/clusters/lab").status_code == 404

    created = send(client, also=[JOBS], apply=True)
    assert (created.status_code, created.json()["created"]) == (201, True)
    assert created.json()["after"] == {"nodes": 4, "gpus": 22, "free_gpus": 9}
    etag = created.headers["etag"]

    again = send(client, also=[JOBS])
    assert (again.json()["num_changes"], again.json()["changes"]) == (0, [])
    assert again.headers["etag"] == etag
    blind = send(client, apply=True)
    stale = send(client, '"other"', apply=True)
    missing = client.post(
        "/v1/clusters/none/import",
        json={"content": SLURM, "apply": True},
        headers={"If-Match": etag},
    )
    statuses = [answer.status_code for answer in (blind, stale, missing)]
    assert statuses == [428, 412, 404]

    seen_again = send(client, etag, also=[JOBS], apply=True)
    assert (seen_again.status_code, seen_again.headers["etag"]) == (200, etag)
    changed = send(client, etag, apply=True, gpus={"zeta9000": {"memory_bytes": "24Gi"}})
    assert (changed.json()["num_changed"], changed.headers["etag"] != etag) == (2, True)


def test_plans_say_what_fits_now_and_what_fits_at_all(client: httpx.Client) -> None:
    """Five GPUs are free beside a job and a drained node; the empty cluster has sixteen."""
    two_hours_ago = (datetime.now(UTC) - timedelta(hours=2)).isoformat()
    assert send(client, apply=True, observed_at=two_hours_ago).status_code == 201

    verdicts = {}
    for model in ("llama-3.2-1b", "qwen2.5-32b", "llama-3.1-405b"):
        answer = client.post("/v1/plans", json={"model": model, **PLAN}).json()
        places = [candidate["placement"] for candidate in answer["candidates"]]
        verdicts[model] = {(place["fits_now"], place["fits_at_all"]) for place in places}
        assert any("were last seen 120 minutes ago" in text for text in answer["warnings"])
        assert any("nobody knows the memory of zeta9000" in text for text in answer["warnings"])

    assert verdicts == {
        "llama-3.2-1b": {(True, True)},
        "qwen2.5-32b": {(False, True)},
        "llama-3.1-405b": set(),
    }


def test_a_node_shows_who_saw_it_and_when(client: httpx.Client) -> None:
    """Beside what there is, what is used, and why it takes no work."""
    send(client, apply=True, observed_at="2026-05-01T10:00:00Z")

    cluster = client.get("/v1/clusters/lab").json()

    nodes = {node["name"]: node for pool in cluster["pools"] for node in pool["nodes"]}
    assert nodes["n2"]["source"] == "slurm 26.05.5"
    assert nodes["n2"]["observed_at"] == "2026-05-01T10:00:00.000Z"
    assert (nodes["n2"]["state"], nodes["n2"]["unavailable"]) == ("drained", "drain: fan broken")
    assert any("days ago (slurm 26.05.5)" in warning for warning in cluster["warnings"])


def test_bad_imports_are_problems_and_store_nothing(client: httpx.Client) -> None:
    """Each says what is wrong, and the stored cluster stays as it was."""
    etag = send(client, apply=True).headers["etag"]
    before = client.get("/v1/clusters/lab").text
    bomb = '<!DOCTYPE x [<!ENTITY a "aa">]><nvidia_smi_log>&a;</nvidia_smi_log>'
    crowd = {"nodes": [{"name": f"n{number}", "gres": "gpu:l4:1"} for number in range(10_001)]}
    refusals: dict[str, tuple[dict[str, Any], int, str]] = {
        "prose": ({"content": "hello"}, 422, "is no JSON"),
        "bomb": ({"content": bomb}, 422, "declares an entity"),
        "format": ({"format": "ray"}, 422, "has the form of slurm"),
        "crowd": ({"content": crowd}, 422, "has 10,001 nodes"),
        "gpu": ({"gpus": {"zeta9000": "zeta9000"}}, 422, "is not in the catalogue"),
        "nothing": ({"content": {"nodes": []}}, 422, "lists no nodes"),
        "unknown": ({"force": True}, 422, "force"),
        "type": ({"content": 7}, 422, "content"),
    }

    for name, (body, status, message) in refusals.items():
        answer = send(client, etag, apply=True, **body)
        assert (answer.status_code, message in answer.text) == (status, True), (name, answer.text)
        assert answer.headers["content-type"] == "application/problem+json"
    deep = client.post(
        PATH, content='{"content": ' + "[" * 200_000, headers={"content-type": "application/json"}
    )
    packed = client.post(
        PATH,
        content=b"\x1f\x8b",
        headers={"content-type": "application/json", "content-encoding": "gzip"},
    )
    assert (deep.status_code, packed.status_code) == (400, 415)
    assert client.get("/v1/clusters/lab").text == before

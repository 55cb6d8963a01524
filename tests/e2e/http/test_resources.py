"""Stored resources over HTTP: revisions, versions, pages, conflicts."""

import re
from typing import Any

import httpx
import pytest

from service.catalog.models import list_all_models
from tests.unit.formats.checkpoints.files import read_expected, read_model

RFC3339 = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")
TINY = {
    "model_type": "llama",
    "vocab_size": 128,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "tie_word_embeddings": False,
}
POOL: dict[str, Any] = {"name": "a100", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "num_nodes": 2}


def model(name: str, **changes: object) -> dict[str, Any]:
    """Return a request to store a tiny model."""
    return {"name": name, "source": {"hf_config": {**TINY, **changes}}}


def slug(answer: httpx.Response, status: int) -> str:
    """Return the type of a problem, after its status and media type were checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"])


def test_a_model_lives_through_its_revisions(client: httpx.Client) -> None:
    """Store, read, replace, delete; every change needs the version that was seen."""
    created = client.post("/v1/models", json=model("tiny"))
    path = created.headers["location"]
    first = created.headers["etag"]

    assert created.status_code == 201
    assert path == "/v1/models/tiny"
    assert RFC3339.fullmatch(created.json()["created_at"])
    assert client.get(path).headers["etag"] == first

    body = model("tiny", num_hidden_layers=4)
    assert slug(client.put(path, json=body), 428) == "precondition-required"
    assert (
        slug(client.put(path, json=body, headers={"if-match": '"stale"'}), 412)
        == "precondition-failed"
    )
    replaced = client.put(path, json=body, headers={"if-match": first})
    assert (replaced.status_code, replaced.json()["revision"]) == (200, 2)
    assert replaced.headers["etag"] != first

    assert slug(client.delete(path, headers={"if-match": first}), 412) == "precondition-failed"
    assert client.delete(path, headers={"if-match": replaced.headers["etag"]}).status_code == 204
    assert slug(client.get(path), 404) == "model-not-found"


def test_every_revision_stays_readable(client: httpx.Client) -> None:
    """A revision is served as it was stored, with a version of its own; one that never was is not
    found.
    """
    first = client.post("/v1/models", json=model("tiny"))
    second = client.put(
        "/v1/models/tiny",
        json=model("tiny", num_hidden_layers=4),
        headers={"if-match": first.headers["etag"]},
    )

    read = client.get("/v1/models/tiny", params={"revision": 1})
    assert (read.json(), read.headers["etag"]) == (first.json(), first.headers["etag"])
    assert client.get("/v1/models/tiny", params={"revision": 2}).json() == second.json()
    assert slug(client.get("/v1/models/tiny", params={"revision": 3}), 404) == "model-not-found"


def test_names_are_taken_once_and_never_from_the_catalogue(client: httpx.Client) -> None:
    """A second model of a name, and one that would shadow the catalogue, are conflicts."""
    client.post("/v1/models", json=model("tiny"))

    assert slug(client.post("/v1/models", json=model("tiny")), 409) == "model-exists"
    assert slug(client.post("/v1/models", json=model("llama-2-7b")), 409) == "model-exists"
    assert client.delete("/v1/models/llama-2-7b", headers={"if-match": "*"}).status_code == 409


def test_a_fit_follows_the_stored_model(client: httpx.Client) -> None:
    """A replaced or deleted model is noticed by the next question."""
    question = {"model": "tiny", "workload": {"task": "train", "sequence_length": 64}, "gpu": "T4"}
    assert slug(client.post("/v1/fit", json=question), 422) == "unknown-model"

    etag = client.post("/v1/models", json=model("tiny")).headers["etag"]
    before = client.post("/v1/fit", json=question).json()["per_gpu"]["allocated_bytes"]
    client.put(
        "/v1/models/tiny", json=model("tiny", num_hidden_layers=8), headers={"if-match": etag}
    )
    after = client.post("/v1/fit", json=question).json()["per_gpu"]["allocated_bytes"]
    client.delete("/v1/models/tiny", headers={"if-match": "*"})

    assert after > before
    assert slug(client.post("/v1/fit", json=question), 422) == "unknown-model"


def test_a_stored_file_tells_its_tensors(client: httpx.Client) -> None:
    """A GGUF header is stored without its tokenizer, and every question finds its bytes by name."""
    document = read_model("qwen3").describe()
    document["metadata"]["tokenizer.ggml.model"] = "gpt2"  # type: ignore[index]  # an object
    expected = read_expected()["qwen3"]["bytes"]

    created = client.post("/v1/models", json={"name": "file", "source": {"gguf": document}})
    serve = {"task": "serve", "engine": "llama_cpp", "num_sequences": 1, "prompt_tokens": 64}
    asked = {"model": "file", "workload": serve, "gpu": "L4"}
    answer = client.post("/v1/fit", json=asked).json()
    client.delete("/v1/models/file", headers={"if-match": "*"})

    assert created.json()["gguf"]["total_bytes"] == expected
    weights = next(p for p in answer["per_gpu"]["components"] if p["name"] == "weights")
    assert 0 < weights["bytes"] <= expected


def test_models_are_paged_newest_first_then_the_catalogue(client: httpx.Client) -> None:
    """Following the cursor shows every model once."""
    for name in ("one", "two", "three"):
        client.post("/v1/models", json=model(name))

    names: list[str] = []
    cursor: str | None = None
    while True:
        page = client.get(
            "/v1/models", params={"limit": "2"} | ({"cursor": cursor} if cursor else {})
        ).json()
        names += [item["name"] for item in page["items"]]
        cursor = page["next_cursor"]
        if cursor is None:
            break

    assert names[:3] == ["three", "two", "one"]
    assert names[3:] == sorted(entry.name for entry in list_all_models())


def test_a_strange_cursor_is_refused(client: httpx.Client) -> None:
    """A cursor that no list gave out is no page."""
    assert slug(client.get("/v1/models", params={"cursor": "x"}), 422) == "invalid-cursor"


def test_a_cluster_is_replaced_whole(client: httpx.Client) -> None:
    """Pools and nodes come back as they were sent, with sizes in bytes and the GPU under its
    catalogue name.
    """
    nodes = [{"name": "n1", "allocated_gpus": 3}, {"name": "n2", "state": "drained"}]
    pool = {
        "name": "p",
        "gpu": "NVIDIA A100-SXM4-80GB",
        "gpus_per_node": 8,
        "host_memory_bytes": "1Ti",
        "nodes": nodes,
    }
    created = client.post("/v1/clusters", json={"name": "prod-a", "pools": [pool]})
    shown = created.json()["pools"][0]

    assert created.status_code == 201
    assert (shown["gpu"], shown["host_memory_bytes"], shown["total_gpus"], shown["free_gpus"]) == (
        "A100-SXM4-80GB",
        2**40,
        16,
        5,
    )

    path, etag = created.headers["location"], created.headers["etag"]
    replaced = client.put(path, json={"pools": [POOL]}, headers={"if-match": etag})
    assert [item["name"] for item in replaced.json()["pools"]] == ["a100"]
    assert (
        slug(client.put(path, json={"pools": [POOL]}, headers={"if-match": etag}), 412)
        == "precondition-failed"
    )
    assert [item["name"] for item in client.get("/v1/clusters").json()["items"]] == ["prod-a"]
    assert client.delete(path, headers={"if-match": replaced.headers["etag"]}).status_code == 204


def test_a_list_of_clusters_can_do_without_their_nodes(client: httpx.Client) -> None:
    """Sums of a pool tell what is where; thousands of nodes would say the same at length."""
    nodes = [{"name": "n1", "allocated_gpus": 3, "mig_gpus": 1}, {"name": "n2", "state": "drained"}]
    pool = {"name": "p", "gpu": "A100-SXM4-80GB", "gpus_per_node": 8, "nodes": nodes}
    assert client.post("/v1/clusters", json={"name": "prod-b", "pools": [pool]}).status_code == 201
    (listed,) = client.get("/v1/clusters", params={"nodes": "false"}).json()["items"]
    (whole,) = client.get("/v1/clusters").json()["items"]

    shown = listed["pools"][0]
    assert (shown["nodes"], shown["total_nodes"]) == (None, 2)
    assert (shown["total_gpus"], shown["drained_gpus"], shown["mig_gpus"], shown["free_gpus"]) == (
        16,
        8,
        1,
        4,
    )
    assert [node["name"] for node in whole["pools"][0]["nodes"]] == ["n1", "n2"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"gpu": "A100"}, "pools[0].gpu"),
        ({"host_memory_bytes": "80GB"}, "pools[0].host_memory_bytes"),
        ({"gpus_per_node": 0}, "pools[0].gpus_per_node"),
        ({"nodes": [], "num_nodes": 2}, "pools[0].nodes"),
        ({"nodes": [{"name": "n1", "alocated_gpus": 1}]}, "pools[0].nodes[0].alocated_gpus"),
    ],
)
def test_a_broken_cluster_names_the_place(
    client: httpx.Client, change: dict[str, Any], field: str
) -> None:
    """The path leads to the pool and the node that is wrong."""
    answer = client.post("/v1/clusters", json={"name": "c", "pools": [POOL | change]})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == field


def test_a_path_and_its_body_cannot_differ(client: httpx.Client) -> None:
    """PUT does not rename."""
    client.post("/v1/clusters", json={"name": "a", "pools": [POOL]})

    answer = client.put(
        "/v1/clusters/a", json={"name": "b", "pools": [POOL]}, headers={"if-match": "*"}
    )

    assert slug(answer, 422) == "invalid-request"


@pytest.mark.parametrize(
    "path",
    ["/v1/models/%00", "/v1/clusters/a%0A", "/v1/measurements/1%00", "/v1/models/" + "x" * 500],
)
def test_odd_paths_are_not_found(client: httpx.Client, path: str) -> None:
    """A name that nothing can have never reaches the database."""
    assert client.get(path).status_code == 404


def test_nul_in_a_config_is_refused(client: httpx.Client) -> None:
    """Postgres takes no NUL in JSON, so nothing with one is offered to it."""
    assert (
        slug(client.post("/v1/models", json=model("tiny", note="a\0b")), 422) == "unstorable-text"
    )


def test_files_that_disagree_with_the_config_are_flagged(client: httpx.Client) -> None:
    """An index or a header is compared with the tree; the difference is a warning of every later
    answer too.
    """
    agreeing, config = (
        {"metadata": {"total_size": 2 * 90_432}, "weight_map": {}},
        {**TINY, "torch_dtype": "bfloat16"},
    )
    tensor = {"dtype": "BF16", "shape": [90_433], "data_offsets": [0, 180_866]}

    fine = client.post(
        "/v1/models",
        json={"name": "fine", "source": {"hf_config": config, "safetensors_index": agreeing}},
    )
    odd = client.post(
        "/v1/models",
        json={"name": "odd", "source": {"hf_config": config, "safetensors_header": {"a": tensor}}},
    )
    both = {"hf_config": config, "safetensors_index": agreeing, "safetensors_header": {"a": tensor}}
    refused = client.post("/v1/models", json={"name": "both", "source": both})

    assert (fine.status_code, fine.json()["parameters"]["total"], fine.json()["warnings"]) == (
        201,
        90_432,
        [],
    )
    assert "2 more" in odd.json()["warnings"][0]
    assert client.get(odd.headers["location"]).json()["warnings"] == odd.json()["warnings"]
    assert slug(refused, 422) == "invalid-request"

"""Reservations over HTTP: promised once, seen by everybody, released with the version that was
seen.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

NODES = [
    {"name": "n1"},
    {
        "name": "n2",
        "allocations": [
            {
                "holder": "vision",
                "num_gpus": 3,
                "gpu_indices": [0, 1, 2],
                "host_memory_bytes": "10Gi",
            },
        ],
    },
    {"name": "n3", "state": "drained"},
    {
        "name": "n4",
        "mig_gpus": 2,
        "mig_slices": [{"profile": "1g.10gb", "total": 14, "allocated": 4}],
    },
]
POOL = {
    "name": "a100",
    "gpu": "A100-SXM4-80GB",
    "gpus_per_node": 8,
    "host_memory_bytes": "1Ti",
    "nvme_bytes": "4Ti",
    "nodes": NODES,
}
PATH = "/v1/clusters/prod-a/reservations"


def share(node: str = "n1", num_gpus: int = 4, **changes: object) -> dict[str, Any]:
    """Return GPUs of a node as a request says them."""
    return {"pool": "a100", "node": node, "num_gpus": num_gpus} | changes


def request(*shares: dict[str, Any], **changes: object) -> dict[str, Any]:
    """Return a request for an hour."""
    return {"holder": "alice", "gpus": list(shares), "expires_in_s": 3600} | changes


def slug(answer: httpx.Response, status: int) -> str:
    """Return the type of a problem, after its status and media type were checked."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["type"])


@pytest.fixture(autouse=True)
def _cluster(client: httpx.Client) -> None:
    answer = client.post("/v1/clusters", json={"name": "prod-a", "pools": [POOL]})
    assert answer.status_code == 201, answer.text


def test_a_reservation_lives_and_is_released(client: httpx.Client) -> None:
    """It is listed, shown, held against the cluster, and gone when it was released."""
    made = client.post(
        PATH, json=request(share(gpu_indices=[0, 1, 2, 3]), share("n4", 2, mig_profile="1g.10gb"))
    )
    path = made.headers["location"]

    assert made.status_code == 201, made.text
    assert path == f"{PATH}/{made.json()['id']}"
    assert (made.json()["holder"], made.json()["num_gpus"]) == ("alice", 4)
    assert client.get(path).json() == made.json()
    assert client.get(path).headers["etag"] == made.headers["etag"]
    assert client.get(PATH).json()["items"] == [made.json()]
    pool = client.get("/v1/clusters/prod-a").json()["pools"][0]
    assert (pool["total_gpus"], pool["reserved_gpus"], pool["free_gpus"]) == (32, 4, 4 + 5 + 6)
    assert (pool["nodes"][0]["reserved_gpus"], pool["nodes"][0]["free_gpus"]) == (4, 4)
    assert pool["nodes"][3]["mig_slices"] == [
        {"profile": "1g.10gb", "total": 14, "allocated": 4, "free": 8}
    ]

    assert slug(client.delete(path), 428) == "precondition-required"
    assert slug(client.delete(path, headers={"if-match": '"stale"'}), 412) == "precondition-failed"
    assert client.delete(path, headers={"if-match": made.headers["etag"]}).status_code == 204
    assert slug(client.get(path), 404) == "reservation-not-found"
    assert client.get(PATH).json() == {"items": [], "next_cursor": None}


def test_a_reservation_is_extended_by_the_version_that_was_seen(client: httpx.Client) -> None:
    """Another end and a job are shown from then on, under another ETag."""
    made = client.post(PATH, json=request(share()))
    path, seen = made.headers["location"], {"if-match": made.headers["etag"]}
    job = {"scheduler": "slurm", "id": "4711"}
    changed = client.patch(path, json={"expires_in_s": 7200, "job": job}, headers=seen)

    assert changed.status_code == 200, changed.text
    assert (made.json()["job"], changed.json()["job"]) == (None, job)
    assert changed.json()["expires_at"] > made.json()["expires_at"]
    assert client.get(path).json() == changed.json()
    assert client.get(path).headers["etag"] == changed.headers["etag"] != made.headers["etag"]
    assert slug(client.patch(path, json={"expires_in_s": 9}), 428) == "precondition-required"
    again = client.patch(path, json={"expires_in_s": 9}, headers=seen)
    assert slug(again, 412) == "precondition-failed"
    for body in ({}, {"expires_in_s": 9, "expires_at": "2030-01-01T00:00:00Z"}):
        answer = client.patch(path, json=body, headers={"if-match": "*"})
        assert slug(answer, 422) == "invalid-request"


def test_what_is_not_free_is_told(client: httpx.Client) -> None:
    """A second asker gets a conflict that says what is free of what he asked for."""
    client.post(PATH, json=request(share(num_gpus=6)))
    answer = client.post(PATH, json=request(share(num_gpus=4), share("n2", 5)))

    assert slug(answer, 409) == "gpus-not-free"
    assert "n1 has 2 free of the 4 that are wanted" in answer.json()["detail"]
    assert answer.json()["places"] == [
        {"pool": "a100", "node": "n1", "mig_profile": None, "wanted_gpus": 4, "free_gpus": 2}
    ]


def test_askers_at_once_are_promised_what_is_free(client: httpx.Client) -> None:
    """Of fifty requests for one of eight GPUs, eight are promised one."""
    with ThreadPoolExecutor(16) as threads:
        answers = list(
            threads.map(
                lambda _: client.post(PATH, json=request(share(num_gpus=1))).status_code, range(50)
            ),
        )

    assert (answers.count(201), answers.count(409)) == (8, 42)


def test_a_repeated_request_is_one_reservation(client: httpx.Client) -> None:
    """The same key and body give the same reservation; with another body, or after its release, the
    key is refused.
    """
    headers = {"idempotency-key": "abc"}
    first, again = (client.post(PATH, json=request(share()), headers=headers) for _ in range(2))

    assert (again.status_code, again.json()) == (201, first.json())
    assert (
        slug(client.post(PATH, json=request(share(num_gpus=1)), headers=headers), 409)
        == "idempotency-conflict"
    )
    client.delete(first.headers["location"], headers={"if-match": "*"})
    assert (
        slug(client.post(PATH, json=request(share()), headers=headers), 409) == "reservation-ended"
    )


def test_a_placement_is_reserved_as_it_was_sent(client: httpx.Client) -> None:
    """What a plan says of its nodes needs no translation."""
    node = share(
        "n2", 5, gpu_indices=[3, 4, 5, 6, 7], mig_profile=None, host_memory_bytes=0, replica=0
    )
    placement = {
        "status": "placed",
        "num_gpus": 5,
        "gpus_per_node": 5,
        "cost_per_hour": None,
        "nodes": [node],
        "notes": [],
    }
    made = client.post(
        PATH, json={"holder": "bob", "placement": placement, "expires_at": "2099-01-01T00:00:00Z"}
    )

    assert slug(made, 422) == "invalid-request"
    made = client.post(PATH, json={"holder": "bob", "placement": placement, "expires_in_s": 60})
    assert made.status_code == 201, made.text
    assert made.json()["gpus"][0]["gpu_indices"] == [3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (request(share(), holder=""), "holder"),
        (request(), "gpus"),
        (request(share(pool="h100")), "gpus[0].pool"),
        (request(share("n9")), "gpus[0].node"),
        (request(share("n1", 9)), "gpus[0].num_gpus"),
        (request(share("n1", 2, gpu_indices=[1])), "gpus[0].gpu_indices"),
        (request(share(), expires_at="2030-01-01T00:00:00Z"), "expires_in_s"),
        ({"holder": "alice", "gpus": [share()]}, "expires_in_s"),
        ({"holder": "alice", "expires_in_s": 60}, "gpus"),
        (request(share(), expires_in_s=0), "expires_in_s"),
        (
            {"holder": "a", "placement": {"nodes": [share("n9")]}, "expires_in_s": 9},
            "placement.nodes[0].node",
        ),
    ],
)
def test_a_broken_request_names_the_place(
    client: httpx.Client, body: dict[str, Any], field: str
) -> None:
    """The path leads to what is wrong."""
    answer = client.post(PATH, json=body)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["field"] == field


def test_what_is_not_there(client: httpx.Client) -> None:
    """A cluster that nobody stored and an id that nobody was given are not found."""
    nobody = "00000000-0000-4000-8000-000000000000"

    assert (
        slug(client.post("/v1/clusters/x/reservations", json=request(share())), 404)
        == "cluster-not-found"
    )
    assert slug(client.get("/v1/clusters/x/reservations"), 404) == "cluster-not-found"
    assert slug(client.get(f"{PATH}/{nobody}"), 404) == "reservation-not-found"
    assert slug(client.get(f"{PATH}/nonsense"), 404) == "reservation-not-found"


@pytest.mark.parametrize(
    ("node", "reason"),
    [
        (
            {"mig_gpus": 1, "mig_slices": [{"profile": "1g.5gb", "total": 1}]},
            "has no MIG profile '1g.5gb'",
        ),
        ({"mig_gpus": 1, "mig_slices": [{"profile": "1g.10gb", "total": 8}]}, "at most 7 slices"),
        (
            {
                "mig_gpus": 1,
                "mig_slices": [
                    {"profile": "1g.10gb", "total": 5},
                    {"profile": "3g.40gb", "total": 1},
                ],
            },
            "take 9 eighths",
        ),
        ({"mig_gpus": 2, "allocated_gpus": 7}, "7 are allocated and 2 cut by MIG"),
        ({"allocated_gpus": 1, "allocations": [{"holder": "a", "num_gpus": 2}]}, "add up to 2"),
        ({"allocations": [{"holder": "a", "num_gpus": 1, "gpu_indices": [8]}]}, "GPU index 8"),
    ],
)
def test_an_inventory_that_cannot_be(
    client: httpx.Client, node: dict[str, Any], reason: str
) -> None:
    """More slices than a GPU can be cut into, profiles that it lacks, and numbers that do not add
    up are refused.
    """
    pool = POOL | {"nodes": [{"name": "n1"} | node]}
    answer = client.post("/v1/clusters", json={"name": "c", "pools": [pool]})

    assert answer.status_code == 422, answer.text
    assert reason in answer.json()["detail"]
    assert answer.json()["errors"][0]["field"].startswith("pools[0].nodes")

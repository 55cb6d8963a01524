"""Extenders of clusters with a thousand nodes, each as large as kubelets report them."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.api.resources.hooks import extender_bodies
from tests.unit.api.builders import patient_parts, served

KUBE, VOLCANO = "/v1/hooks/kube-scheduler", "/v1/hooks/volcano"
NUM_NODES, MAX_IMAGES = 1_000, 50
JSON = {"content-type": "application/json"}
QUESTION = "llama-3.1-8b --task train --method lora --sequence-length 2048"
POD = {
    "metadata": {"name": "tune-x", "annotations": {"headroom.dev/question": QUESTION}},
    "spec": {"containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]},
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served(patient_parts()) as client:
        yield client


def _make_node(name: str, product: str) -> dict[str, Any]:
    """Return a node with what a kubelet and feature discovery say of it."""
    digest = "a" * 64
    image = f"registry.example/team/training-image@sha256:{digest}"
    return {
        "metadata": {
            "name": name,
            "labels": {
                "nvidia.com/gpu.product": product,
                **{f"feature.node.kubernetes.io/cpu-cpuid.FEATURE{i}": "true" for i in range(60)},
            },
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {"podCIDR": "10.0.0.0/24", "providerID": f"aws:///us-east-1a/{name}"},
        "status": {
            "images": [
                {"names": [image, f"registry.example/team/training:{i}"], "sizeBytes": 10**10}
                for i in range(MAX_IMAGES)
            ]
        },
    }


def _join_nodes() -> tuple[str, ...]:
    """Return every tenth node with a GPU that is too small."""
    small = json.dumps(_make_node("NAME", "Tesla-T4"))
    large = json.dumps(_make_node("NAME", "NVIDIA-H100-80GB-HBM3"))
    return tuple(
        (large if index % 10 else small).replace("NAME", f"n{index}") for index in range(NUM_NODES)
    )


def test_a_thousand_nodes_are_filtered_and_come_back_as_they_were(
    client: TestClient[Any],
) -> None:
    """More than ten megabytes, which no other route takes."""
    nodes = _join_nodes()
    body = f'{{"Pod":{json.dumps(POD)},"Nodes":{{"metadata":{{}},"items":[{",".join(nodes)}]}}}}'

    answer = client.post(f"{KUBE}/refuse/filter", content=body, headers=JSON)

    assert len(body) > 10_000_000
    assert answer.status_code == 200, answer.text[:300]
    left = ",".join(node for index, node in enumerate(nodes) if index % 10)
    assert f'"items":[{left}]' in answer.text
    assert answer.text.count("on each T4") == NUM_NODES // 10


def test_a_thousand_nodes_are_scored(client: TestClient[Any]) -> None:
    """By the names that Volcano has for them."""
    nodes = [
        f'{{"Name":"v{index}","Node":{node},"Tasks":{{}}}}'
        for index, node in enumerate(_join_nodes())
    ]
    body = f'{{"task":{{"Pod":{json.dumps(POD)}}},"nodes":[{",".join(nodes)}]}}'

    answer = client.post(f"{VOLCANO}/refuse/prioritize", content=body, headers=JSON)

    scores = answer.json()["nodeScore"]
    assert [scores[f"v{index}"] for index in range(11)] == [0, *[10] * 9, 0]
    assert len(scores) == NUM_NODES


def test_names_of_a_large_cluster_come_back(client: TestClient[Any]) -> None:
    """Where the scheduler keeps nodes to itself, 1.3 MB of names."""
    names = [f"n{index}.{'x' * 250}" for index in range(5_000)]

    answer = client.post(f"{KUBE}/refuse/filter", json={"Pod": POD, "NodeNames": names})

    assert answer.json()["NodeNames"] == names


@pytest.mark.parametrize(
    ("path", "body", "status", "words"),
    [
        ("kube-scheduler/warn/filter", b" " * (32 * 2**20 + 1), 413, "33,554,432 bytes"),
        (
            "kube-scheduler/warn/filter",
            b'{"Pod":{},"Nodes":{"items":[%s0]}}' % (b"0," * extender_bodies.MAX_VALUES),
            413,
            "2,000,000 values",
        ),
        (
            "kube-scheduler/warn/filter",
            b'{"Pod":{"x":"%s"}}' % (b"x" * 1_000_000),
            413,
            "Pod has at most 1,000,000 bytes",
        ),
        ("kube-scheduler/warn/filter", b'{"Pod":%s}' % (b"[" * 10**6), 400, "nested"),
        ("kube-scheduler/warn/filter", b'{"Pod":7}', 422, "Pod cannot be read"),
        ("kube-scheduler/warn/filter", b'{"Pod":{"x":"\\u0000"}}', 422, "U+0000"),
        (
            "kube-scheduler/warn/prioritize",
            b'{"Pod":{},"Nodes":{"items":[{},{"metadata":{"labels":7}}]}}',
            422,
            "Nodes.items[1] cannot be read",
        ),
        (
            "volcano/warn/prioritize",
            b'{"task":{},"nodes":[{"Name":7}]}',
            422,
            "nodes[0] cannot be read",
        ),
        ("volcano/warn/jobEnqueueable", b'{"job":{"Tasks":{"t":7}}}', 422, "job.Tasks.t"),
    ],
    ids=["bytes", "values", "pod", "deep", "number", "nul", "labels", "name", "task"],
)
def test_hostile_bodies_are_refused_in_words(
    client: TestClient[Any], path: str, body: bytes, status: int, words: str
) -> None:
    """Before memory is spent on them, and with the place that is wrong."""
    answer = client.post(f"/v1/hooks/{path}", content=body, headers=JSON)

    assert answer.status_code == status
    assert words in answer.json()["detail"]

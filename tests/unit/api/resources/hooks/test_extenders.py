"""Extenders of kube-scheduler and Volcano: which nodes hold a pod, and which it prefers."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import patient_parts, served
from tests.unit.api.resources.hooks.searches import CountedSearches

QUESTION = "llama-3.1-8b --task train --method lora --sequence-length 2048"
KUBE, VOLCANO = "/v1/hooks/kube-scheduler", "/v1/hooks/volcano"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served(patient_parts()) as client:
        yield client


def _pod(note: str | None = QUESTION, gpus: int = 1) -> dict[str, Any]:
    container = {"name": "main", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    annotations = {} if note is None else {"headroom.dev/question": note}
    owner = {"kind": "Job", "name": "tune", "controller": True}
    return {
        "metadata": {"name": "tune-x", "annotations": annotations, "ownerReferences": [owner]},
        "spec": {"containers": [container if gpus else {"name": "main"}]},
    }


def _node(name: str, product: str | None, memory: int | None = None) -> dict[str, Any]:
    labels = {} if product is None else {"nvidia.com/gpu.product": product}
    if memory is not None:
        labels["nvidia.com/gpu.memory"] = str(memory)
    return {"metadata": {"name": name, "labels": labels}, "status": {"kept": True}}


NODES = [
    _node("small", "Tesla-T4"),
    _node("large", "NVIDIA-H100-80GB-HBM3"),
    _node("larger", "NVIDIA-H200"),
    _node("bare", None),
    _node("foreign", "Some-Other-GPU"),
]


def _ask(client: TestClient[Any], path: str, body: object) -> Any:  # noqa: ANN401 - JSON
    answer = client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _filter(client: TestClient[Any], pod: object, mode: str = "refuse") -> dict[str, Any]:
    body = {"Pod": pod, "Nodes": {"metadata": {}, "items": NODES}, "NodeNames": None}
    return dict(_ask(client, f"{KUBE}/{mode}/filter", body))


def _names(result: dict[str, Any]) -> list[str]:
    return [item["metadata"]["name"] for item in result["Nodes"]["items"]]


def test_nodes_that_cannot_hold_a_pod_are_left_out(client: TestClient[Any]) -> None:
    """With the line, and the others as they came: of what is unknown nothing is said."""
    result = _filter(client, _pod())

    assert _names(result) == ["large", "larger", "bare", "foreign"]
    assert result["Nodes"]["items"] == NODES[1:]
    assert list(result["FailedAndUnresolvableNodes"]) == ["small"]
    assert "does not fit" in result["FailedAndUnresolvableNodes"]["small"]
    assert "on each T4" in result["FailedAndUnresolvableNodes"]["small"]
    assert (result["FailedNodes"], result["Error"], result["NodeNames"]) == ({}, "", None)


@pytest.mark.parametrize(
    ("pod", "mode"),
    [
        (_pod(), "warn"),
        (_pod(note=None, gpus=0), "refuse"),
        (_pod(note="no-such-model --task train"), "refuse"),
        (_pod(note=f"{QUESTION} --gpu A100-SXM4-80GB"), "refuse"),
        ({"metadata": {}, "spec": {}}, "refuse"),
    ],
)
def test_no_node_is_left_out(client: TestClient[Any], pod: dict[str, Any], mode: str) -> None:
    """In a dry run, without GPUs, of what cannot be answered, of another GPU and of no pod."""
    result = _filter(client, pod, mode)

    assert _names(result) == [node["metadata"]["name"] for node in NODES]
    assert result["FailedAndUnresolvableNodes"] == {}


def test_too_few_gpus_leave_no_node_out(client: TestClient[Any]) -> None:
    """A pod of several is one part of what the launch runs on."""
    result = _filter(client, _pod(note=f"{QUESTION} --data-parallel 16", gpus=8))

    assert "large" in _names(result)


def test_cards_of_one_name_are_told_apart_by_their_memory(client: TestClient[Any]) -> None:
    """The smaller one is left out, the larger is not."""
    name = "NVIDIA-GeForce-RTX-4060-Ti"
    nodes = [_node("eight", name, 8188), _node("sixteen", name, 16380), _node("unknown", name)]
    question = "llama-3.2-1b --task train --method lora --sequence-length 2560"

    result = _ask(
        client, f"{KUBE}/refuse/filter", {"Pod": _pod(question), "Nodes": {"items": nodes}}
    )

    assert _names(result) == ["sixteen", "unknown"]


def test_names_alone_come_back(client: TestClient[Any]) -> None:
    """A scheduler that keeps its nodes to itself learns nothing, and loses none."""
    body = {"Pod": _pod(), "NodeNames": ["a", "b"]}

    assert _ask(client, f"{KUBE}/refuse/filter", body)["NodeNames"] == ["a", "b"]
    assert [row["Score"] for row in _ask(client, f"{KUBE}/refuse/prioritize", body)] == [0, 0]


def test_the_cheapest_node_that_holds_a_pod_is_preferred(client: TestClient[Any]) -> None:
    """10 for it, less for what costs more, none where it does not fit or nothing is known."""
    body = {"Pod": _pod(), "Nodes": {"items": NODES}}

    scores = {row["Host"]: row["Score"] for row in _ask(client, f"{KUBE}/refuse/prioritize", body)}

    assert scores["large"] == 10 > scores["larger"] > 0
    assert scores["small"] == scores["bare"] == scores["foreign"] == 0


@pytest.mark.parametrize(
    ("place", "mode", "code"),
    [(0, "refuse", 3), (1, "refuse", 0), (3, "refuse", 0), (0, "warn", 0)],
)
def test_volcano_asks_node_by_node(
    client: TestClient[Any], place: int, mode: str, code: int
) -> None:
    """A line and Volcano's code where no preemption would help."""
    body = {
        "task": {"Name": "t", "Pod": _pod()},
        "node": {"Name": "n", "Node": NODES[place], "Idle": None},
    }

    answer = _ask(client, f"{VOLCANO}/{mode}/predicate", body)

    assert answer["code"] == code
    assert bool(answer["status"]) == (code != 0)


@pytest.mark.parametrize(("verb", "num_searches"), [("filter", 1), ("prioritize", 0)])
def test_a_number_is_looked_for_where_somebody_reads_it(verb: str, num_searches: int) -> None:
    """In the line of a node that is left out, and in no ranking."""
    searches = CountedSearches()
    with served(replace(patient_parts(), way_outs=searches)) as client:
        nodes = [_node("small", "Tesla-T4", 15360)]
        _ask(client, f"{KUBE}/refuse/{verb}", {"Pod": _pod(), "Nodes": {"items": nodes}})

    assert searches.num_begun == num_searches


def test_volcano_prefers_the_cheapest_too(client: TestClient[Any]) -> None:
    """By the name that Volcano has for the node."""
    nodes = [{"Name": f"v-{node['metadata']['name']}", "Node": node} for node in NODES]

    answer = _ask(client, f"{VOLCANO}/refuse/prioritize", {"task": {"Pod": _pod()}, "nodes": nodes})

    assert answer["nodeScore"]["v-large"] == 10
    assert answer["nodeScore"]["v-small"] == 0
    assert answer["errorMessage"] == ""


@pytest.mark.parametrize(
    ("note", "mode", "status"),
    [
        (f"{QUESTION} --gpu T4", "refuse", -1),
        (f"{QUESTION} --gpu T4", "warn", 0),
        (f"{QUESTION} --gpu H100", "refuse", 0),
        (None, "refuse", 0),
    ],
)
def test_a_job_is_queued_unless_it_cannot_fit(
    client: TestClient[Any], note: str | None, mode: str, status: int
) -> None:
    """By the GPU that its question names; whoever says nothing has no vote against."""
    body = {"job": {"Name": "j", "Tasks": {"t1": {"Pod": _pod(note)}}}}

    assert _ask(client, f"{VOLCANO}/{mode}/jobEnqueueable", body) == {"status": status}


def test_a_job_is_judged_by_a_pod_with_gpus(client: TestClient[Any]) -> None:
    """Whatever stands first: a launcher without any says nothing of the others."""
    tasks = {"a": {"Pod": _pod(None, gpus=0)}, "b": {"Pod": _pod(f"{QUESTION} --gpu T4")}}

    answer = _ask(client, f"{VOLCANO}/refuse/jobEnqueueable", {"job": {"Tasks": tasks}})

    assert answer == {"status": -1}


def test_a_job_without_pods_is_queued(client: TestClient[Any]) -> None:
    """Volcano asks before it makes them."""
    assert _ask(client, f"{VOLCANO}/refuse/jobEnqueueable", {"job": {"Tasks": None}}) == {
        "status": 0
    }


def test_an_unknown_mode_is_not_found(client: TestClient[Any]) -> None:
    """With those there are."""
    answer = client.post(f"{KUBE}/maybe/filter", json={"Pod": _pod()})

    assert answer.status_code == 404
    assert "warn, refuse, change" in answer.json()["detail"]

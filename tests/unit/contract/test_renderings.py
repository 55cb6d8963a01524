"""What a plan asks of schedulers and launchers, over HTTP."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest
from litestar.testing import TestClient

from service.catalog.gpus import list_gpus
from service.catalog.models import load_config, resolve_model
from service.contract.schemas.format_options import FormatWord
from service.formats.manifests.registry import FORMATS
from tests.unit.api.builders import served

TRAIN = {"task": "train", "sequence_length": 1024, "activation_checkpointing": "full"}
SERVE = {"task": "serve", "engine": "vllm", "num_sequences": 8, "prompt_tokens": 512}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def _candidates(client: TestClient[Any], **question: object) -> list[dict[str, Any]]:
    found = client.post(
        "/v1/plans", json={"model": "llama-2-7b", "gpus": ["A100-SXM4-80GB"], **question}
    )
    assert found.status_code == 200, found.text
    candidates: list[dict[str, Any]] = found.json()["candidates"]
    return candidates


@pytest.mark.parametrize("workload", [TRAIN, SERVE])
def test_every_candidate_asks_for_its_gpus(
    client: TestClient[Any], workload: dict[str, Any]
) -> None:
    """Nodes, GPUs of each and replicas are the candidate's number of GPUs, for the model that was
    asked.
    """
    candidates = _candidates(client, workload=workload)

    assert candidates
    for candidate in candidates:
        requests = candidate["requests"]
        launch = requests["launch"]
        assert set(requests) == {"kubernetes", "slurm", "ray", "skypilot", "launch"}
        assert (
            launch["nodes"] * launch["gpus_per_node"] * launch["replicas"] == candidate["num_gpus"]
        )
        assert requests["skypilot"]["name"].startswith("llama-2-7b-")


def test_a_gpu_of_known_memory_alone_is_asked_for_by_memory(client: TestClient[Any]) -> None:
    """No product name is made up for it."""
    (candidate, *_) = _candidates(client, workload=SERVE, gpus=[{"memory_bytes": "48Gi"}])

    assert candidate["requests"]["skypilot"]["resources"]["accelerators"].startswith("48GB+:")
    assert "nodeSelector" not in str(candidate["requests"]["kubernetes"]).replace(
        "nodeSelectorTerms", ""
    )


def test_gpus_with_the_same_launch_are_choices_of_one_claim(client: TestClient[Any]) -> None:
    """The plan's own first, then the others of the question, each by its own bytes."""
    (candidate, *_) = _candidates(
        client, workload=SERVE, gpus=["A100-SXM4-80GB", "H100-SXM5-80GB", "T4"], format=["dra"]
    )

    template = candidate["requests"]["dra"]["items"][0]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    names = [choice["name"] for choice in request["firstAvailable"]]
    fit = candidate["fit"]
    _, high = fit["per_gpu"]["intervals"]["device"]
    threshold = high + fit["capacity_bytes"] - fit["usable_bytes"]
    selector = request["firstAvailable"][0]["selectors"][0]["cel"]["expression"]
    assert names[0] == candidate["gpu"].casefold()
    assert sorted(names) == ["a100-sxm4-80gb", "h100-sxm5-80gb"]
    assert f'quantity("{threshold}")' in selector


def test_a_claim_by_memory_knows_the_gpus_of_the_catalogue(client: TestClient[Any]) -> None:
    """A told memory has no product: a GPU that nobody knows withholds what the worst known one
    does.
    """
    (candidate, *_) = _candidates(
        client, workload=SERVE, gpus=[{"memory_bytes": "48Gi"}], format=["dra"]
    )

    template = candidate["requests"]["dra"]["items"][0]
    (request,) = template["spec"]["spec"]["devices"]["requests"]
    _, high = candidate["fit"]["per_gpu"]["intervals"]["device"]
    withheld = max(
        entry.capacity_bytes - entry.usable_bytes
        for entry in list_gpus()
        if entry.vendor == "nvidia" and not entry.has_unified_memory
    )
    selector = request["exactly"]["selectors"][0]["cel"]["expression"]
    assert f'quantity("{high + withheld}")' in selector


@pytest.mark.parametrize(
    ("model", "loaded", "name"),
    [
        (
            "meta-llama/Llama-2-7b-chat-hf",
            "meta-llama/Llama-2-7b-chat-hf",
            "llama-2-7b-chat-hf-serve",
        ),
        (
            "Meta-Llama/LLAMA-2-7B-chat-hf",
            "meta-llama/Llama-2-7b-chat-hf",
            "llama-2-7b-chat-hf-serve",
        ),
        ("llama-2-7b", "meta-llama/Llama-2-7b-hf", "llama-2-7b-serve"),
        ({"hf_config": load_config(resolve_model("gpt2"))}, '"${CHECKPOINT:?}"', "gpt2-serve"),
    ],
)
def test_a_command_loads_the_model_that_was_asked_for(
    client: TestClient[Any], model: str | dict[str, Any], loaded: str, name: str
) -> None:
    """An id of the hub stays itself, a name of the catalogue is its id, and a config that was sent
    has none.
    """
    (candidate, *_) = _candidates(client, workload=SERVE, model=model)
    requests = candidate["requests"]

    assert requests["launch"]["command"].startswith(f"vllm serve {loaded} --")
    assert requests["skypilot"]["name"] == name


def test_a_plan_is_rendered_in_the_formats_that_were_asked_for(client: TestClient[Any]) -> None:
    """Beside the requests of every answer, each by its word; the image is the one that was said."""
    (candidate, *_) = _candidates(
        client, workload=SERVE, format=["kueue"], container_image="registry.example/mine:7"
    )
    requests = candidate["requests"]
    queued = requests["kueue"]["items"][-1]

    assert set(requests) == {"kubernetes", "slurm", "ray", "skypilot", "launch", "kueue"}
    assert queued["metadata"]["labels"] == {"kueue.x-k8s.io/queue-name": "default"}
    assert queued["spec"]["template"]["spec"]["containers"][0]["image"] == "registry.example/mine:7"


def test_a_format_that_cannot_carry_a_plan_says_why(client: TestClient[Any]) -> None:
    """It is null, and a note has the reason; the other requests stay."""
    (candidate, *_) = _candidates(
        client, workload=TRAIN, gpus=["Gaudi3-128GB"], format=["kueue", "slurm"]
    )
    requests = candidate["requests"]

    assert (requests["kueue"], requests["kubernetes"]) == (None, None)
    assert requests["slurm"].startswith("#!/bin/bash")
    assert any(
        note.startswith("kueue: a pod needs an image") for note in requests["launch"]["notes"]
    )


def test_the_contract_knows_the_words_of_the_registry() -> None:
    """A format that no request can name would never be rendered."""
    assert set(get_args(FormatWord)) == set(FORMATS)


def test_an_unknown_format_is_refused_with_those_that_are(client: TestClient[Any]) -> None:
    """Who mistypes one reads which there are."""
    answer = client.post(
        "/v1/plans",
        json={
            "model": "llama-2-7b",
            "gpus": ["A100-SXM4-80GB"],
            "workload": SERVE,
            "format": ["kuewe"],
        },
    )

    assert answer.status_code == 422
    assert "kueue" in answer.text


def test_options_are_of_the_formats_that_were_asked_for(client: TestClient[Any]) -> None:
    """One that every answer has is rendered with them as well; one without them says so."""
    (candidate, *_) = _candidates(
        client,
        workload=SERVE,
        format=["kubernetes", "skypilot"],
        format_options={"namespace": "ml", "name": "mine"},
    )
    requests = candidate["requests"]

    names = {
        (item["metadata"]["namespace"], item["metadata"]["name"])
        for item in requests["kubernetes"]["items"]
    }
    assert names == {("ml", "mine")}
    assert requests["skypilot"] is None
    assert requests["launch"]["notes"][-1] == (
        "skypilot: skypilot takes no namespace: its options are name"
    )
    assert "#SBATCH --job-name=mine\n" in requests["slurm"]

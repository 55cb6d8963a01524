"""A config of a type without a module, as its user sees it over HTTP."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from service import app
from service.usecases.recordings.counting import WeightCounter
from tests.e2e.http.conftest import REPOSITORY, Servers
from tests.recordings import HELIUM
from tests.running.forked import ForkedProgram, make_recorder_command
from tests.waiting import eventually

IN_TIME_S = 120.0
WORKLOAD = {"task": "train", "precision": "bf16", "sequence_length": 64}
QUESTION = {"workload": WORKLOAD, "gpu": "A100-SXM4-80GB"}


@pytest.fixture
def recorder(servers: Servers) -> Iterator[None]:
    """Run a trace worker whose recorder runs transformers' code in one variant."""
    arguments = ("--device", "trace", "--recorder-command", make_recorder_command())
    environment = {**servers.environment(), "PATH": "/usr/bin:/bin"}
    with ForkedProgram("worker", *arguments, env=environment, cwd=REPOSITORY) as process:
        yield
        process.kill()
        process.wait()


@pytest.fixture
def counter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the API count weights by such a recorder."""
    counter = WeightCounter(command=(make_recorder_command(),))
    monkeypatch.setattr(app, "WeightCounter", lambda: counter)


def ask(client: httpx.Client, model: object) -> httpx.Response:
    """Return the answer to a question about a model."""
    return client.post("/v1/fit", json={**QUESTION, "model": model})


@pytest.mark.usefixtures("recorder", "counter")
def test_a_type_without_a_module_is_recorded_and_answered(client: httpx.Client) -> None:
    """Its weights are exact at once, a question meanwhile is told what is sure, and then it is
    answered like any other, by its name and by its config.
    """
    created = client.post("/v1/models", json={"name": "mine", "source": {"hf_config": HELIUM}})
    meanwhile = ask(client, "mine")
    inline = ask(client, {"hf_config": HELIUM})
    eventually(
        lambda: client.get("/v1/models/mine").json()["state"] != "recording", within_s=IN_TIME_S
    )
    ready = client.get("/v1/models/mine")

    assert created.status_code == 201
    assert created.json()["state"] == "recording"
    assert created.json()["parameters"]["total"] == 516_288
    assert meanwhile.status_code == inline.status_code == 409
    assert meanwhile.headers["retry-after"] == "5"
    problem: dict[str, Any] = meanwhile.json()
    assert problem["type"] == "model-recording"
    assert problem["static"]["weight_bytes"]["bf16"] == 2 * 516_288
    assert (ready.json()["state"], ready.json()["recording"]) == ("ready", None)
    assert ready.headers["etag"] != created.headers["etag"]
    answer = ask(client, "mine").json()
    assert answer["verdict"] == "fits"
    assert ask(client, {"hf_config": HELIUM}).json()["per_gpu"] == answer["per_gpu"]
    # What was sure is in the answer: all that the optimizer's step holds.
    step = next(i for i in answer["per_gpu"]["instants"] if i["name"] == "optimizer_step")
    assert step["allocated_bytes"] >= problem["bound"]["at_least_bytes"]
    parts = {part["name"]: part["bytes"] for part in answer["per_gpu"]["components"]}
    for name in ("weights", "optimizer_states"):
        assert parts[name] == problem["bound"]["components"][name]
    _search(client, answer["per_gpu"]["allocated_bytes"])


def _search(client: httpx.Client, allocated_bytes: int) -> None:
    """Ask how many GPUs and which largest batch a recorded model takes."""
    question = {**QUESTION, "model": "mine"}
    number = client.post("/v1/how-many", json=question).json()
    most = client.post("/v1/ceilings", json={**question, "maximize": "micro_batch_size"}).json()

    assert number["num_gpus"] == 1
    assert number["candidates"][0]["allocated_bytes"] == allocated_bytes
    assert most["value"] > 64
    assert most["fit"]["verdict"] == "fits"


@pytest.mark.parametrize(
    ("change", "detail"),
    [
        ({"num_hidden_layers": 10**9}, "at most 512 layers"),
        ({"hidden_size": 2**60}, "at most 1,099,511,627,776"),
        ({"model_type": "no_such_type"}, "model_type 'no_such_type' is not known"),
    ],
)
def test_what_cannot_be_recorded_is_neither_stored_nor_queued(
    client: httpx.Client, change: dict[str, object], detail: str
) -> None:
    """It is refused at once, with the field that is wrong."""
    source = {"hf_config": HELIUM | change}

    refused = client.post("/v1/models", json={"name": "mine", "source": source})

    assert refused.status_code == 422
    assert detail in refused.json()["detail"]
    assert refused.json()["errors"][0]["field"].startswith("source.hf_config.")
    assert client.get("/v1/models/mine").status_code == 404
    assert client.get("/v1/measurements?source=recording").json()["items"] == []

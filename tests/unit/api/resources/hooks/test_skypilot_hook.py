"""SkyPilot's admin policy: bodies as its client sends them, a JSON string in JSON."""

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from litestar.testing import TestClient

from service.api.resources.hooks import skypilot
from service.formats.submissions.skypilot import read_task
from tests.unit.api.builders import patient_parts, served

FITS = "llama-3.2-1b --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)

SAMPLES = Path(__file__).parent / "samples"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served(patient_parts()) as client:
        yield client


def ask(client: TestClient[Any], question: str | None, mode: str, run: str = "echo") -> Any:  # noqa: ANN401 - a response
    """Ask as SkyPilot's client does."""
    task: dict[str, Any] = {"name": "t", "resources": {"accelerators": {"A100-80GB": 1}}}
    task |= {
        "num_nodes": 1,
        "run": run,
        "envs": {"HEADROOM_QUESTION": question} if question else {},
    }
    body = {
        "task": yaml.safe_dump(task),
        "skypilot_config": "active_workspace: default\n",
        "request_name": "launch",
        "request_options": {"cluster_name": None, "down": False, "dryrun": False},
        "at_client_side": False,
        "user": "id: 1a2b\nname: ann\n",
        "client_api_version": 24,
    }
    return client.post(f"/v1/hooks/skypilot/{mode}", json=json.dumps(body))


def read(answer: Any) -> dict[str, Any]:  # noqa: ANN401 - a response
    """Return the task of an answer, read as SkyPilot's client does."""
    assert answer.status_code == 200, answer.text
    mutated = json.loads(answer.json())
    assert mutated["skypilot_config"] == "active_workspace: default\n"
    return dict(yaml.safe_load(mutated["task"]))


@pytest.mark.parametrize("mode", ["warn", "refuse", "change"])
def test_what_fits_passes_as_it_is(client: TestClient[Any], mode: str) -> None:
    """In every mode, but for the name of its question, by which its measurements are joined."""
    task = read(ask(client, FITS, mode))

    assert task["resources"] == {"accelerators": {"A100-80GB": 1}}
    assert re.fullmatch("[0-9a-f]{32}", task["envs"].pop("HEADROOM_QUESTION_DIGEST"))
    assert task["envs"] == {"HEADROOM_QUESTION": FITS}


def test_what_does_not_fit_is_refused_in_a_line(client: TestClient[Any]) -> None:
    """By the status whose text SkyPilot shows: no other has it."""
    answer = ask(client, TOO_LARGE, "refuse")

    assert answer.status_code == 400
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.text.startswith("headroom: does not fit: ")
    assert "; it needs 2 x A100-" in answer.text


def test_what_does_not_fit_passes_where_the_door_only_warns(client: TestClient[Any]) -> None:
    """SkyPilot has no place for a warning."""
    assert read(ask(client, TOO_LARGE, "warn"))["resources"] == {"accelerators": {"A100-80GB": 1}}


def test_it_gets_the_gpus_that_it_needs(client: TestClient[Any]) -> None:
    """And keeps all else that it says."""
    task = read(ask(client, TOO_LARGE, "change"))

    assert task["resources"] == {"accelerators": {"A100-80GB": 2}}
    assert (task["name"], task["num_nodes"], task["run"]) == ("t", 1, "echo")


def test_the_real_clients_own_bodies(client: TestClient[Any]) -> None:
    """SkyPilot 0.14.1 asks twice, its client and its server: what the first answer gave the task
    is enough for the second.
    """
    first, second = (
        json.loads((SAMPLES / f"skypilot_0_14_{side}.json").read_text())
        for side in ("client", "server")
    )

    answers = [
        client.post("/v1/hooks/skypilot/change", json=json.dumps(body)) for body in (first, second)
    ]

    tasks = [yaml.safe_load(json.loads(answer.json())["task"]) for answer in answers]
    assert [task["resources"]["accelerators"] for task in tasks] == [{"A100-80GB": 2}] * 2


@pytest.mark.parametrize(
    "question",
    [
        {"model": "llama-2-7b", "workload": 5},
        {"model": "llama-2-7b", "workload": {"task": "train"}, "layout": []},
        {"model": "llama-2-7b", "workload": {"task": "train"}, "layout": {"tensor_parallel": 0}},
    ],
)
def test_a_question_of_another_shape_passes(
    client: TestClient[Any], question: dict[str, Any]
) -> None:
    """A mistake in it is no error of the door."""
    assert read(ask(client, json.dumps(question), "refuse"))["run"] == "echo"


def test_a_task_that_never_asked_passes(client: TestClient[Any]) -> None:
    """A notebook is none of the door's business."""
    assert read(ask(client, None, "refuse", run="jupyter lab"))["run"] == "jupyter lab"


def test_what_cannot_be_read_passes(client: TestClient[Any]) -> None:
    """A planner must not hold up a cloud."""
    body = {"task": "- not\n- a task\n", "skypilot_config": "{}"}

    answer = client.post("/v1/hooks/skypilot/refuse", json=json.dumps(body))

    assert json.loads(answer.json()) == body


def test_an_object_is_answered_by_an_object(client: TestClient[Any]) -> None:
    """For whoever tries the door by hand."""
    body = {"task": "run: echo\n", "skypilot_config": "{}"}

    assert client.post("/v1/hooks/skypilot/warn", json=body).json() == body


@pytest.mark.parametrize("body", ['"not json"', '"{}"', '"', "[]"])
def test_what_is_no_request_is_refused(client: TestClient[Any], body: str) -> None:
    """By a problem that says what is missing."""
    headers = {"content-type": "application/json"}

    answer = client.post("/v1/hooks/skypilot/warn", content=body, headers=headers)

    assert answer.status_code in {400, 422}
    assert answer.headers["content-type"] == "application/problem+json"


def test_a_long_task_is_read_beside_the_event_loop(
    client: TestClient[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others are answered meanwhile; a short one is worth no thread."""
    is_beside: list[bool] = []

    def read_noting(text: str, **names: Any) -> Any:  # noqa: ANN401 - whatever is read
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            is_beside.append(True)
        else:
            is_beside.append(False)
        return read_task(text, **names)

    monkeypatch.setattr(skypilot, "read_task", read_noting)

    answers = [ask(client, FITS, "warn", run="echo\n" * number) for number in (1, 2000)]

    assert [read(answer)["name"] for answer in answers] == ["t", "t"]
    assert is_beside == [False, True]

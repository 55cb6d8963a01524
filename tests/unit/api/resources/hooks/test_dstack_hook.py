"""dstack's REST plugin: bodies as its server sends them."""

import copy
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import patient_parts, served

FITS = "llama-3.2-1b --task train --sequence-length 1024"
TOO_LARGE = (
    "llama-2-7b --task train --sequence-length 4096 --zero-stage 3 --activation-checkpointing full"
)


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes."""
    with served(patient_parts()) as client:
        yield client


def a_run(question: str | None) -> dict[str, Any]:
    """Return the spec of a run on one A100 of 80 GB."""
    gpu = {"name": ["A100"], "count": {"min": 1, "max": 1}, "memory": {"min": 80.0, "max": 80.0}}
    configuration = {
        "type": "task",
        "nodes": 1,
        "commands": ["jupyter lab"],
        "env": {"HEADROOM_QUESTION": question} if question else {},
        "resources": {"gpu": gpu},
    }
    return {"run_name": "r", "configuration": configuration}


def drop_digest(spec: dict[str, Any]) -> str:
    """Take the name of its question out of a run, and return it."""
    return str(spec["configuration"]["env"].pop("HEADROOM_QUESTION_DIGEST"))


def apply(
    client: TestClient[Any], spec: dict[str, Any], mode: str, policy: str = "on_run_apply"
) -> dict[str, Any]:
    """Apply a spec as dstack does."""
    body = {"user": "ann", "project": "main", "spec": spec}
    answer = client.post(f"/v1/hooks/dstack/{mode}/apply_policies/{policy}", json=body)
    assert answer.status_code == 200, answer.text
    return dict(answer.json())


@pytest.mark.parametrize("mode", ["warn", "refuse", "change"])
def test_what_fits_passes_as_it_is(client: TestClient[Any], mode: str) -> None:
    """In every mode, but for the name of its question, by which its measurements are joined."""
    spec = a_run(FITS)

    answer = apply(client, spec, mode)

    assert re.fullmatch("[0-9a-f]{32}", drop_digest(answer["spec"]))
    assert answer == {"spec": spec, "error": None}


def test_what_does_not_fit_is_refused_in_a_line(client: TestClient[Any]) -> None:
    """With the spec as it came, which dstack wants back; the GPU is the one of 80 GB."""
    spec = a_run(TOO_LARGE)

    answer = apply(client, spec, "refuse")

    assert answer["spec"] == spec
    assert answer["error"].startswith("headroom: does not fit: ")
    assert "of 79." in answer["error"]
    assert "; it needs 2 x A100-" in answer["error"]


def test_what_does_not_fit_passes_where_the_door_only_warns(client: TestClient[Any]) -> None:
    """Dstack has no place for a warning."""
    spec = a_run(TOO_LARGE)

    answer = apply(client, spec, "warn")

    drop_digest(answer["spec"])
    assert answer == {"spec": spec, "error": None}


def test_it_gets_the_gpus_that_it_needs(client: TestClient[Any]) -> None:
    """Both ends of the range, and nothing else."""
    expected = a_run(TOO_LARGE)
    expected["configuration"]["resources"]["gpu"]["count"] = {"min": 2, "max": 2}

    answer = apply(client, a_run(TOO_LARGE), "change")

    drop_digest(answer["spec"])
    assert answer == {"spec": expected, "error": None}


def test_the_real_servers_own_body(client: TestClient[Any]) -> None:
    """As dstack 0.22.5 sends it: the GPUs that it is given are enough when it asks again."""
    body = json.loads((Path(__file__).parent / "samples" / "dstack_0_22_apply.json").read_text())

    first = apply(client, body["spec"], "change")["spec"]
    again = apply(client, copy.deepcopy(first), "refuse")

    assert first["configuration"]["resources"]["gpu"]["count"] == {"min": 2, "max": 2}
    # A run that got other GPUs carries the question about these.
    assert drop_digest(again["spec"]) == drop_digest(first)
    assert again == {"spec": first, "error": None}


def test_a_run_that_never_asked_passes(client: TestClient[Any]) -> None:
    """A notebook is none of the door's business."""
    spec = a_run(None)

    assert apply(client, spec, "refuse") == {"spec": spec, "error": None}


@pytest.mark.parametrize("policy", ["on_fleet_apply", "on_volume_apply", "on_gateway_apply"])
def test_what_is_no_run_passes(client: TestClient[Any], policy: str) -> None:
    """Dstack asks about all that it applies."""
    spec = {"configuration": {"type": "fleet", "nodes": {"min": 2}}}

    assert apply(client, spec, "refuse", policy) == {"spec": spec, "error": None}


def test_a_run_that_cannot_be_read_passes(client: TestClient[Any]) -> None:
    """A planner must not hold up a cloud."""
    assert apply(client, {"x": 1}, "refuse") == {"spec": {"x": 1}, "error": None}


def test_another_policy_is_not_there(client: TestClient[Any]) -> None:
    """And the answer names those that are."""
    answer = client.post("/v1/hooks/dstack/warn/apply_policies/on_secret_apply", json={"spec": {}})

    assert (answer.status_code, answer.json()["type"]) == (404, "not-found")
    assert "on_run_apply" in answer.json()["detail"]

"""GET and POST /v1/how-many with a format: the fewest GPUs as a scheduler's client reads them."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.unit.api.builders import served

WORKLOAD = {"task": "train", "method": "lora", "sequence_length": 512}
QUESTION = {"model": "llama-3.2-1b", "gpu": "L40S", "workload": WORKLOAD}
QUERY = {"model": "llama-3.2-1b", "gpu": "L40S", **{k: str(v) for k, v in WORKLOAD.items()}}
IMAGE = "registry.example/mine:7"


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def _ask(client: TestClient[Any], **more: object) -> dict[str, Any]:
    answer = client.post("/v1/how-many", json=QUESTION | more)
    assert answer.status_code == 200, answer.text
    return dict(answer.json()["candidates"][0])


def test_a_query_names_one_format_and_a_body_several(client: TestClient[Any]) -> None:
    """Both are rendered alike; who asks for none has no requests."""
    queried = client.get(
        "/v1/how-many", params=QUERY | {"format": "hami", "container_image": IMAGE}
    )
    (found, *_) = queried.json()["candidates"]
    asked = _ask(client, format=["hami", "kueue"], container_image=IMAGE)

    assert found["requests"]["hami"] == asked["requests"]["hami"]
    assert set(asked["requests"]) - set(found["requests"]) == {"kueue"}
    assert _ask(client)["requests"] is None


def test_a_candidate_is_rendered_as_a_plan_and_a_fit_of_it_are(client: TestClient[Any]) -> None:
    """One job for the same layout and workload, whoever found them."""
    (word, options) = ("kueue", {"queue": "team-a", "namespace": "ml", "name": "mine"})
    found = _ask(client, format=[word], format_options=options)
    configuration = {name: found[name] for name in ("workload", "layout")}
    fit = client.post(
        f"/v1/formats/{word}", json=QUESTION | configuration | {"format_options": options}
    ).json()
    body = {"model": QUESTION["model"], "gpus": [QUESTION["gpu"]], **configuration}
    plan = client.post("/v1/plans", json=body | {"format": [word], "format_options": options})

    assert found["requests"][word] == fit["document"]
    assert found["requests"] == plan.json()["candidates"][0]["requests"]


def test_a_format_is_answered_as_json(client: TestClient[Any]) -> None:
    """Who prefers text is given the objects none the less; a number alone has no room for them."""
    preferred = client.get(
        "/v1/how-many", params=QUERY | {"format": "slurm"}, headers={"accept": "text/plain"}
    )
    counted = client.post(
        "/v1/how-many", params={"as": "count"}, json=QUESTION | {"format": ["slurm"]}
    )

    assert preferred.json()["candidates"][0]["requests"]["slurm"].startswith("#!/bin/bash\n")
    assert counted.status_code == 422
    assert "as=count answers with the number alone" in counted.json()["detail"]


def test_a_format_that_cannot_carry_a_candidate_says_why(client: TestClient[Any]) -> None:
    """It is null, and a note has the reason."""
    requests = _ask(client, format=["podgroup"])["requests"]

    assert requests["podgroup"] is None
    assert requests["launch"]["notes"][-1].startswith("podgroup: podgroup is a gang of pods")


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"format": ["kuewe"]}, "format[0]"),
        ({"format": []}, "format"),
        ({"container_image": IMAGE}, "container_image"),
        ({"format_options": {"name": "mine"}}, "format_options"),
    ],
)
def test_what_would_not_be_rendered_is_refused(
    client: TestClient[Any], more: dict[str, object], field: str
) -> None:
    """A word that is none, and what has no effect without one."""
    answer = client.post("/v1/how-many", json=QUESTION | more)

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]

"""`include`: which parts of a fit answer are worked out."""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from service.planner.fit.parts import FitPart
from tests.unit.api.builders import FIT, changed, served

EVERYTHING = [part.value for part in FitPart]
SHOWN = {
    "components": ("per_gpu.components", "checkpoint_bytes"),
    "instants": ("per_gpu.instants", "per_gpu.phases"),
    "throughput": ("throughput",),
    "rules_of_thumb": ("rules_of_thumb",),
    "remedies": ("remedies",),
}


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes for the tests of this file."""
    with served() as client:
        yield client


def ask(client: TestClient[Any], **said: object) -> dict[str, Any]:
    """Return the answer to a question that does not fit."""
    found = client.post("/v1/fit", json={**FIT, **said})
    assert found.status_code == 200, found.text
    return dict(found.json())


def look_up(answer: dict[str, Any], path: str) -> object:
    """Return the value at a dotted path."""
    value: Any = answer
    for name in path.split("."):
        value = value[name]
    return value


def test_nothing_said_is_everything(client: TestClient[Any]) -> None:
    """To the byte."""
    plain = client.post("/v1/fit", json=FIT)
    named = client.post("/v1/fit", json={**FIT, "include": EVERYTHING[::-1] * 2})

    assert plain.content == named.content
    assert all(look_up(plain.json(), path) for paths in SHOWN.values() for path in paths)


@pytest.mark.parametrize("part", SHOWN)
def test_a_part_comes_where_it_is_asked_for(client: TestClient[Any], part: str) -> None:
    """What it shows is what the whole answer shows, and everything else is empty."""
    full = ask(client)
    found = ask(client, include=[part, "replay"])

    for name, paths in SHOWN.items():
        for path in paths:
            shown = look_up(found, path)
            assert shown == look_up(full, path) if name == part else not shown, path
    assert found["per_gpu"]["intervals"] == full["per_gpu"]["intervals"]
    assert found["per_gpu"]["device_bytes"] == full["per_gpu"]["device_bytes"]
    assert found["assumptions"] == full["assumptions"]


def test_numbers_alone_are_those_of_a_batch(client: TestClient[Any]) -> None:
    """Nothing replayed, nothing explained."""
    batch = client.post("/v1/fit/batch", json={"items": [FIT]}).json()["items"][0]

    assert ask(client, include=[]) == batch


def test_the_numbers_do_not_depend_on_what_is_shown(client: TestClient[Any]) -> None:
    """Explained or not, without a replay they are the same."""
    numbers, explained = ask(client, include=[]), ask(client, include=["components", "instants"])

    for name in ("allocated_bytes", "reserved_bytes", "device_bytes", "steady_bytes", "intervals"):
        assert numbers["per_gpu"][name] == explained["per_gpu"][name]
    parts = explained["per_gpu"]["components"]
    assert sum(part["bytes"] for part in parts) == explained["per_gpu"]["device_bytes"]


def test_a_replay_is_what_makes_reserved_bytes_exact(client: TestClient[Any]) -> None:
    """Remedies come with one, since each is compared with it."""
    full, ratio = ask(client)["per_gpu"], ask(client, include=["throughput"])["per_gpu"]

    assert ratio["allocated_bytes"] == full["allocated_bytes"]
    assert ratio["reserved_bytes"] != full["reserved_bytes"]
    for parts in (["replay"], ["remedies"]):
        assert ask(client, include=parts)["per_gpu"]["reserved_bytes"] == full["reserved_bytes"]


@pytest.mark.parametrize("said", [{}, {"include": EVERYTHING}, {"include": ["remedies"]}])
def test_remedies_that_are_not_wanted_are_not_looked_for(
    client: TestClient[Any], said: dict[str, object]
) -> None:
    """`remedies` says so for every answer, whatever it includes."""
    assert ask(client, remedies=False, **said)["remedies"] == []


def test_an_unknown_part_is_refused(client: TestClient[Any]) -> None:
    """With the nearest one."""
    found = client.post("/v1/fit", json=changed("include", ["remedy"])).json()

    assert found["status"] == 422
    assert found["errors"][0]["nearest"] == "remedies"


def test_an_item_of_a_batch_says_it_as_well(client: TestClient[Any]) -> None:
    """Where the batch is answered in full; numbers have no parts."""
    item = {**FIT, "include": ["rules_of_thumb", "replay"]}
    body: dict[str, object] = {"items": [item, {**FIT, "remedies": False}]}
    numbers = client.post("/v1/fit/batch", json=body).json()["items"]
    full = client.post("/v1/fit/batch", json=body | {"detail": "full"}).json()["items"]

    assert full == [ask(client, **item), ask(client, remedies=False)]
    assert numbers[0] == numbers[1] == ask(client, include=[])

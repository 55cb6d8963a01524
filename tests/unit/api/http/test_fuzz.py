"""Bodies of every door, changed at random: each is answered or refused in words.

The long form, which grows them too and looks at what they cost, is ``python -m tests.fuzz``.
"""

from collections.abc import Iterator
from typing import Any

import pytest
from litestar.testing import TestClient

from tests.fuzz.__main__ import ask, serve_doors
from tests.fuzz.bodies import change_body, list_doors

NUM_SEEDS = 4


@pytest.fixture(scope="module", name="client")
def start() -> Iterator[TestClient[Any]]:
    """Serve the API over fakes, with hooks that wait for their answers."""
    with serve_doors() as client:
        yield client


def test_no_door_fails(client: TestClient[Any]) -> None:
    """A refusal is a 4xx; a 503 says that there is no database here."""
    doors = list_doors(client.get("/docs/openapi.json").json())

    faults = [
        (door.path, seed, cost.status, cost.text[:200])
        for door in doors
        for seed in range(NUM_SEEDS)
        if (cost := ask(client, door, change_body(door, seed))).is_fault
    ]

    assert len(doors) > 30
    assert faults == []

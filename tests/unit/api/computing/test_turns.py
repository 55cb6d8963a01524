"""Turns at the processor: who used least comes first, and nobody's questions crowd others out."""

import asyncio
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import Any

import pytest

from service.api.computing.budgets import Budget
from service.api.computing.turns import (
    HALF_LIFE_S,
    MAX_ASKERS,
    MAX_WAITING_EACH,
    RETRY_AFTER_S,
    Turns,
)
from service.api.http.computing import compute
from service.base.errors import TooManyRequestsError
from tests.unit.api.builders import parts, served


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


async def settle() -> None:
    """Let every task run until it waits."""
    for _ in range(5):
        await asyncio.sleep(0)


def run(scene: Callable[[], Awaitable[None]]) -> None:
    """Run a scene in an event loop of its own."""

    async def play() -> None:
        await scene()

    asyncio.run(play())


async def hold(turns: Turns, asker: str, order: list[str], release: asyncio.Event) -> None:
    """Take a turn, say so, and keep it until the release."""
    async with turns.take(asker):
        order.append(asker)
        await release.wait()


def test_who_used_least_comes_first() -> None:
    """A caller of one short question passes all that another has waiting."""
    order: list[str] = []

    async def scene() -> None:
        turns, release = Turns(1), asyncio.Event()
        turns.count("heavy", 30.0)
        tasks = [asyncio.create_task(hold(turns, "heavy", order, release)) for _ in range(3)]
        await settle()
        tasks.append(asyncio.create_task(hold(turns, "light", order, release)))
        await settle()
        release.set()
        await asyncio.gather(*tasks)

    run(scene)

    assert order == ["heavy", "light", "heavy", "heavy"]


def test_as_many_hold_a_slot_as_there_are() -> None:
    """The third of three waits for one of two."""
    order: list[str] = []

    async def scene() -> None:
        turns, release = Turns(2), asyncio.Event()
        tasks = [asyncio.create_task(hold(turns, name, order, release)) for name in "abc"]
        await settle()
        assert order == ["a", "b"]
        release.set()
        await asyncio.gather(*tasks)

    run(scene)

    assert order == ["a", "b", "c"]


@pytest.mark.parametrize("is_granted", [False, True])
def test_who_leaves_keeps_no_slot(is_granted: bool) -> None:  # noqa: FBT001 - a case
    """A caller who leaves while waiting, or in the moment that the turn comes, lets the next in."""
    order: list[str] = []

    async def scene() -> None:
        turns, release = Turns(1), asyncio.Event()
        first = asyncio.create_task(hold(turns, "first", order, release))
        await settle()
        leaver = asyncio.create_task(hold(turns, "leaver", order, release))
        await settle()
        last = asyncio.create_task(hold(turns, "last", order, release))
        if is_granted:
            release.set()
            await first
        leaver.cancel()
        release.set()
        await asyncio.gather(first, leaver, last, return_exceptions=True)
        async with turns.take("after"):
            order.append("after")

    run(scene)

    assert order[0] == "first"
    assert order[-2:] == ["last", "after"]


def test_one_caller_has_so_many_waiting() -> None:
    """One more than may wait is refused, with when to come back; others still wait."""
    order: list[str] = []

    async def scene() -> None:
        turns, release = Turns(1), asyncio.Event()
        tasks = [
            asyncio.create_task(hold(turns, "crowd", order, release))
            for _ in range(1 + MAX_WAITING_EACH)
        ]
        await settle()
        with pytest.raises(TooManyRequestsError) as refused:
            async with turns.take("crowd"):
                order.append("never")
        assert refused.value.extra["retry_after_s"] == RETRY_AFTER_S
        tasks.append(asyncio.create_task(hold(turns, "other", order, release)))
        release.set()
        await asyncio.gather(*tasks)

    run(scene)

    assert "never" not in order
    assert order.count("other") == 1


def test_use_is_forgotten_by_halves() -> None:
    """A minute of somebody's searches does not count for ever, and not more askers than so many."""
    clock = Clock()
    turns = Turns(1, clock=clock)
    turns.count("a", 8.0)
    usages = []
    for _ in range(4):
        usages.append(turns.get_usage("a"))
        clock.now += HALF_LIFE_S
    for number in range(MAX_ASKERS):
        turns.count(f"other {number}", 1.0)

    assert usages[0] == 8.0
    assert all(later == earlier / 2 for earlier, later in pairwise(usages))
    assert turns.get_usage("a") == 0.0


def test_files_are_read_one_at_a_time() -> None:
    """Two imports at once would take twice the memory; others are answered meanwhile."""
    reading, most = [0], [0]
    deps = parts()

    def read(_budget: Budget) -> None:
        reading[0] += 1
        most[0] = max(most[0], reading[0])
        reading[0] -= 1

    async def scene() -> None:
        scope: Any = {"state": {}, "client": ("::1", 1)}
        async with deps.import_turns.take("somebody"):
            waiting = [
                asyncio.create_task(compute(deps, scope, deps.import_turns, read)) for _ in range(3)
            ]
            await compute(deps, scope, deps.search_turns, lambda _budget: None)
            assert most == [0]
        await asyncio.gather(*waiting)

    run(scene)

    assert most == [1]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/measurements/import", {"content": "nothing that is known"}),
        ("/v1/clusters/lab/import", {"content": "nothing that is known"}),
    ],
)
def test_imports_take_their_turn(path: str, body: dict[str, Any]) -> None:
    """What reading a file took counts against who sent it, refused or not."""
    deps = parts()
    with served(deps) as client:
        answer = client.post(path, json=body)

    assert answer.status_code == 422
    assert deps.import_turns.get_usage("testclient") > 0

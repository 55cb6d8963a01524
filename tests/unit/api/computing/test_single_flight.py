"""Equal questions at once: one computation, which goes on while somebody waits for it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from service.api.computing.single_flight import Flight, Landing, SingleFlight
from service.api.computing.turns import Turns
from service.base.errors import InvalidRequestError
from tests.unit.api.computing.test_turns import run, settle

Task = asyncio.Task[Landing[str]]


class Work:
    """A computation that ends when a test says so."""

    def __init__(self, slots: int = 1) -> None:
        """Compute at turns of so many slots, and begin with nothing."""
        self.flights, self.turns = SingleFlight[str, str](), Turns(slots)
        self.release, self.kept = asyncio.Event(), ""
        self.num_begun = self.num_given_up = 0
        self.refusal: Exception | None = None
        self.payers = list[str]()

    async def compute(self, get_payer: Callable[[], str]) -> str:
        """Return an answer once it is released."""
        self.num_begun += 1
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.num_given_up += 1
            raise
        finally:
            self.payers.append(get_payer())
        if self.refusal is not None:
            raise self.refusal
        return f"answer {self.num_begun}"

    def ask(self, asker: str = "a") -> Task:
        """Ask the question."""
        flight = Flight(
            asker=asker,
            turn=self.turns.take(asker),
            find=lambda: self.kept or None,
            compute=self.compute,
        )
        asked: Coroutine[Any, Any, Landing[str]] = self.flights.join("key", flight)
        return asyncio.create_task(asked)


async def leave(task: Task) -> None:
    """Leave before the answer."""
    task.cancel()
    await settle()


@pytest.mark.parametrize("slots", [1, 3])
def test_it_is_computed_once_for_all(slots: int) -> None:
    """Whether they came before it began or while it was computed, and whoever of them leaves."""

    async def scene() -> None:
        work = Work(slots)
        tasks = [work.ask() for _ in range(2)]
        await settle()
        tasks.append(work.ask("b"))
        await settle()
        await leave(tasks[0])
        work.kept = "answer 1"
        work.release.set()

        assert await asyncio.gather(*tasks[1:]) == [
            Landing(answer="answer 1", is_shared=True) for _ in range(2)
        ]
        assert (work.num_begun, work.num_given_up) == (1, 0)

    run(scene)


def test_it_ends_with_the_last_who_waits() -> None:
    """Its turn goes to the next, and who asks again begins anew."""

    async def scene() -> None:
        work = Work()
        tasks = [work.ask(), work.ask()]
        await settle()
        for task in tasks:
            await leave(task)
        given_up = work.num_given_up
        again = work.ask()
        await settle()
        work.release.set()

        assert given_up == 1
        assert await again == Landing(answer="answer 2", is_shared=False)

    run(scene)


def test_who_still_waits_pays() -> None:
    """Whoever began it may have left; where all have, it was made for who began it."""

    async def scene() -> None:
        work = Work()
        begun, joined, _last = work.ask("a"), work.ask("b"), work.ask("c")
        await settle()
        await leave(begun)
        work.release.set()
        await joined
        work.release.clear()
        await leave(await begin(work))

        assert work.payers == ["b", "d"]

    async def begin(work: Work) -> Task:
        task = work.ask("d")
        await settle()
        return task

    run(scene)


def test_its_turn_ends_with_it() -> None:
    """Not with who began it: nothing else is computed beside it meanwhile."""

    async def scene() -> None:
        work, order = Work(), list[str]()
        first, second = work.ask(), work.ask()
        await settle()
        await leave(first)

        async def take() -> None:
            async with work.turns.take("other"):
                order.append("other")

        other = asyncio.create_task(take())
        await settle()
        assert not order

        work.release.set()
        await asyncio.gather(second, other)
        assert order == ["other"]

    run(scene)


def test_each_is_refused_in_words_of_its_own() -> None:
    """What one of them says of the fields is not what another one hears."""

    async def scene() -> None:
        work = Work(2)
        work.refusal = InvalidRequestError("no", errors=[{"field": "workload.task"}])
        tasks = [work.ask(), work.ask()]
        await settle()
        work.release.set()
        refusals: list[Any] = await asyncio.gather(*tasks, return_exceptions=True)
        refusals[0].extra["errors"][0]["field"] = "task"

        assert [type(refusal) for refusal in refusals] == [InvalidRequestError] * 2
        assert refusals[1].extra["errors"][0]["field"] == "workload.task"

    run(scene)

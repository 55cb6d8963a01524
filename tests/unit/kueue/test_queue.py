"""Objects that are due: several at once, none twice, and a silent server holds none up for long."""

from collections.abc import Awaitable, Callable

import anyio
import httpx
import pytest

from service.kueue.api import ObjectKey
from service.kueue.asking import Asker
from service.kueue.breaker import PAUSE_S, Breaker
from service.kueue.errors import AskError, SilentError
from service.kueue.gates import MAX_ATTEMPTS
from service.kueue.queue import NUM_WORKERS, WorkQueue
from service.kueue.resources import JOBS
from service.usecases.hooks.decision import Mode
from tests.unit.kueue.fakes import a_job

DEADLINE_S = 30.0


def a_key(number: int) -> ObjectKey:
    """Return the key of a job."""
    return ObjectKey(resource=JOBS, namespace="ml", name=f"tune-{number}")


def run(main: Callable[[], Awaitable[None]]) -> None:
    """Run a test that must not hang."""

    async def bounded() -> None:
        with anyio.fail_after(DEADLINE_S):
            await main()

    anyio.run(bounded)


def test_objects_are_looked_at_several_at_once() -> None:
    """One that is asked about for long does not keep the others waiting."""
    started: list[ObjectKey] = []

    async def main() -> None:
        queue, all_started = WorkQueue(), anyio.Event()

        async def reconcile(key: ObjectKey, _unanswered: int) -> None:
            started.append(key)
            if len(started) == NUM_WORKERS:
                all_started.set()
            await anyio.sleep_forever()

        async with anyio.create_task_group() as group:
            group.start_soon(queue.run, reconcile)
            for number in range(NUM_WORKERS + 1):
                queue.add(a_key(number))
            await all_started.wait()
            group.cancel_scope.cancel()

    run(main)

    assert len(set(started)) == len(started) == NUM_WORKERS


def test_no_object_is_looked_at_twice_at_once() -> None:
    """What changes meanwhile is looked at again, afterwards."""
    at_once: list[int] = []

    async def main() -> None:
        queue, is_done, inside = WorkQueue(), anyio.Event(), 0

        async def reconcile(key: ObjectKey, _unanswered: int) -> None:
            nonlocal inside
            inside += 1
            at_once.append(inside)
            if len(at_once) == 1:
                queue.add(key)
            else:
                is_done.set()
            for _ in range(2 * NUM_WORKERS):
                await anyio.lowlevel.checkpoint()
            inside -= 1

        async with anyio.create_task_group() as group:
            group.start_soon(queue.run, reconcile)
            queue.add(a_key(0))
            await is_done.wait()
            group.cancel_scope.cancel()

    run(main)

    assert at_once == [1, 1]


def test_an_object_that_changes_often_is_given_up_no_sooner() -> None:
    """Looks within its pause count for nothing: the server had no more time to come back."""
    counts: list[int] = []

    async def main() -> None:
        queue = WorkQueue()

        async def reconcile(_key: ObjectKey, unanswered: int) -> None:
            counts.append(unanswered)
            message = "away"
            raise AskError(message)

        for _ in range(MAX_ATTEMPTS):
            await queue.run_one(a_key(0), reconcile)

    run(main)

    assert counts == [0, *[1] * (MAX_ATTEMPTS - 1)]


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        """Begin at 0."""
        self.now = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now


def test_a_silent_server_is_asked_by_one_at_a_time() -> None:
    """The others fail at once, until a trial after a pause is answered."""
    clock, is_silent, asked = Clock(), True, 0

    async def answer(_request: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        if is_silent:
            raise httpx.ReadTimeout("")
        return httpx.Response(503, json={"detail": "not today"})

    async def main() -> None:
        nonlocal is_silent
        client = httpx.AsyncClient(
            transport=httpx.MockTransport(answer), base_url="http://headroom"
        )
        asker = Asker(client=client, breaker=Breaker(clock))
        for _ in range(100):
            with pytest.raises(SilentError, match="http://headroom does not answer: ReadTimeout"):
                await asker.ask([a_job()], Mode.CHANGE)
        assert asked == 1
        clock.now += PAUSE_S
        is_silent = False
        for _ in range(2):
            with pytest.raises(AskError, match="503: not today"):
                await asker.ask([a_job()], Mode.CHANGE)

    run(main)

    assert asked == 3


def test_one_trial_runs_at_a_time() -> None:
    """Also while it hangs, and one that is cancelled is followed by another."""
    clock, asked = Clock(), 0

    async def main() -> None:
        nonlocal asked
        hanging = anyio.Event()

        async def answer(_request: httpx.Request) -> httpx.Response:
            nonlocal asked
            asked += 1
            if asked == 1:
                raise httpx.ConnectError("refused")
            hanging.set()
            await anyio.sleep_forever()
            raise AssertionError

        client = httpx.AsyncClient(
            transport=httpx.MockTransport(answer), base_url="http://headroom"
        )
        asker = Asker(client=client, breaker=Breaker(clock))
        with pytest.raises(SilentError):
            await asker.ask([a_job()], Mode.CHANGE)
        clock.now += PAUSE_S
        for _ in range(2):
            async with anyio.create_task_group() as group:
                group.start_soon(asker.ask, [a_job()], Mode.CHANGE)
                await hanging.wait()
                with pytest.raises(SilentError):
                    await asker.ask([a_job()], Mode.CHANGE)
                group.cancel_scope.cancel()
            hanging = anyio.Event()

    run(main)

    assert asked == 3

"""Computations under way, each made once for all who ask."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Generic, TypeVar

import anyio

from service.base.errors import ServiceError, UnavailableError
from service.estimator.values.errors import EstimatorError
from service.runtime.children.messages import decode_message, encode_message

A = TypeVar("A")


class SingleFlight(Generic[A]):
    """Computations under way, by key. It belongs to one event loop."""

    def __init__(self) -> None:
        """Start with none."""
        self._flights: dict[str, _Flight[A]] = {}

    async def join(
        self,
        key: str,
        turn: AbstractAsyncContextManager[None],
        find: Callable[[], A | None],
        compute: Callable[[], Awaitable[A]],
    ) -> A:
        """Return the answer of a key, computed once however many ask.

        It is computed at the ``turn`` of who comes first, unless ``find`` then has it. It goes on
        while somebody waits for it, whoever began it. Raises what ``compute`` raises.
        """
        flight = self._flights.get(key)
        if flight is not None:
            return await flight.wait()
        async with AsyncExitStack() as turn_stack:
            await turn_stack.enter_async_context(turn)
            flight = self._flights.get(key)
            if flight is None:
                answer = find()
                if answer is not None:
                    return answer
                # The turn ends with the computation, not with who waited for it.
                flight = self._begin(key, compute, turn_stack.pop_all())
        return await flight.wait()

    def _begin(
        self, key: str, compute: Callable[[], Awaitable[A]], turn_stack: AsyncExitStack
    ) -> "_Flight[A]":
        flight: _Flight[A] = _Flight(lambda: self._forget(key, flight))
        self._flights[key] = flight
        flight.start(compute, turn_stack)
        return flight

    def _forget(self, key: str, flight: "_Flight[A]") -> None:
        # Who comes after it was given up begins another, while the thread of this one ends.
        if self._flights.get(key) is flight:
            del self._flights[key]


class _Flight(Generic[A]):
    """Computation in a task of its own, with those who wait."""

    def __init__(self, on_end: Callable[[], None]) -> None:
        self._on_end = on_end
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self._num_waiting = 0
        self._answer: A | None = None
        self._refusal: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self, compute: Callable[[], Awaitable[A]], turn_stack: AsyncExitStack) -> None:
        """Begin to compute, and leave the turn at the end."""
        self._task = asyncio.get_running_loop().create_task(self._run(compute, turn_stack))

    async def wait(self) -> A:
        """Return the answer; the last who leaves before it ends the computation."""
        self._num_waiting += 1
        try:
            await self._ended.wait()
        finally:
            self._num_waiting -= 1
            if self._num_waiting == 0:
                self._on_end()
                self._scope.cancel()
        if self._refusal is not None:
            raise _copy_refusal(self._refusal)
        if self._answer is None:
            message = "the question was not answered, the server stops; ask again"
            raise UnavailableError(message)
        return self._answer

    async def _run(self, compute: Callable[[], Awaitable[A]], turn_stack: AsyncExitStack) -> None:
        try:
            async with turn_stack:
                with self._scope:
                    self._answer = await compute()
        except Exception as refusal:  # noqa: BLE001 - raised to all who wait
            self._refusal = refusal
        finally:
            self._on_end()
            self._ended.set()


def _copy_refusal(refusal: Exception) -> Exception:
    """Return a refusal for one of those who wait.

    Each names its fields in the words of its own question.
    """
    if not isinstance(refusal, ServiceError | EstimatorError):
        return refusal
    copied: Exception = decode_message(encode_message(refusal))
    return copied

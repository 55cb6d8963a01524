"""Computations under way, each made once for all who ask."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

from service.base.errors import ServiceError, UnavailableError
from service.estimator.values.errors import EstimatorError
from service.runtime.children.messages import decode_message, encode_message

W = TypeVar("W")
A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flight(Generic[W, A]):
    """Computation that an asker would begin.

    It is made at the ``turn``, unless ``find`` then has its answer. ``compute`` gets what tells,
    from any thread, for whom it is made: the first of those who still wait.
    """

    asker: W
    turn: AbstractAsyncContextManager[None]
    find: Callable[[], A | None]
    compute: Callable[[Callable[[], W]], Awaitable[A]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing(Generic[A]):
    """Answer of a computation, which another asker may have begun."""

    answer: A
    is_shared: bool


class SingleFlight(Generic[W, A]):
    """Computations under way, by key. It belongs to one event loop."""

    def __init__(self) -> None:
        """Start with none."""
        self._flights: dict[str, _Flight[W, A]] = {}

    async def join(self, key: str, begun: Flight[W, A]) -> Landing[A]:
        """Return the answer of a key, computed once however many ask.

        It goes on while somebody waits for it, whoever began it. Raises what ``compute`` raises.
        """
        flight = self._flights.get(key)
        if flight is not None:
            return Landing(answer=await flight.wait(begun.asker), is_shared=True)
        async with AsyncExitStack() as turn_stack:
            await turn_stack.enter_async_context(begun.turn)
            flight = self._flights.get(key)
            is_shared = flight is not None
            if flight is None:
                answer = begun.find()
                if answer is not None:
                    return Landing(answer=answer, is_shared=True)
                # The turn ends with the computation, not with who waited for it.
                flight = self._begin(key, begun, turn_stack.pop_all())
        return Landing(answer=await flight.wait(begun.asker), is_shared=is_shared)

    def _begin(self, key: str, begun: Flight[W, A], turn_stack: AsyncExitStack) -> "_Flight[W, A]":
        flight: _Flight[W, A] = _Flight(begun.asker, lambda: self._forget(key, flight))
        self._flights[key] = flight
        flight.start(begun.compute, turn_stack)
        return flight

    def _forget(self, key: str, flight: "_Flight[W, A]") -> None:
        # Who comes after it was given up begins another, while the thread of this one ends.
        if self._flights.get(key) is flight:
            del self._flights[key]


class _Flight(Generic[W, A]):
    """Computation in a task of its own, with those who wait."""

    def __init__(self, beginner: W, on_end: Callable[[], None]) -> None:
        self._beginner, self._on_end = beginner, on_end
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self._waiting: dict[int, W] = {}
        self._answer: A | None = None
        self._refusal: Exception | None = None
        self._task: asyncio.Task[None] | None = None

    def start(
        self, compute: Callable[[Callable[[], W]], Awaitable[A]], turn_stack: AsyncExitStack
    ) -> None:
        """Begin to compute, and leave the turn at the end."""
        self._task = asyncio.get_running_loop().create_task(self._run(compute, turn_stack))

    async def wait(self, asker: W) -> A:
        """Return the answer; the last who leaves before it ends the computation."""
        place = max(self._waiting, default=0) + 1
        self._waiting[place] = asker
        try:
            await self._ended.wait()
        finally:
            del self._waiting[place]
            if not self._waiting:
                self._on_end()
                self._scope.cancel()
        if self._refusal is not None:
            raise _copy_refusal(self._refusal)
        if self._answer is None:
            message = "the question was not answered, the server stops; ask again"
            raise UnavailableError(message)
        return self._answer

    def _get_payer(self) -> W:
        """Return the first who waits, who began it where nobody does."""
        return next(iter(tuple(self._waiting.values())), self._beginner)

    async def _run(
        self, compute: Callable[[Callable[[], W]], Awaitable[A]], turn_stack: AsyncExitStack
    ) -> None:
        try:
            async with turn_stack:
                with self._scope:
                    self._answer = await compute(self._get_payer)
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

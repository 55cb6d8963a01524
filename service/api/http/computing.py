"""Computation of answers in turn and within a budget."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

import anyio.to_thread
from litestar import Request
from litestar.types import ASGIApp, HTTPScope

from service.api.computing.budgets import Budget
from service.api.computing.means import Means
from service.api.computing.turns import Turns
from service.api.http.auth import get_principal
from service.api.http.dependencies import Dependencies, get_dependencies
from service.api.http.disconnect import run_until_disconnect
from service.base.errors import TooManyRequestsError

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")
UNIT_S = 0.1
"""Processor's time that counts as one more request against the rate of a key."""


async def compute_search(
    request: Request[Any, Any, Any],
    read: Callable[[], T],
    answer: Callable[[T, Budget], ASGIApp],
) -> ASGIApp:
    """Compute the answer of a search, cancelled on disconnect.

    Raises TooCostlyError past the budget of a question.
    """
    deps = get_dependencies(request)

    async def respond(question: T) -> ASGIApp:
        return await compute(deps, request.scope, deps.search_turns, partial(answer, question))

    return await respond_to_question(request, read, respond)


async def respond_to_question(
    request: Request[Any, Any, Any],
    read: Callable[[], T],
    respond: Callable[[T], Awaitable[ASGIApp]],
) -> ASGIApp:
    """Read a question and respond to it, cancelled on disconnect.

    ``read`` makes the question before its turn comes: it may wait for the database or for a hub,
    which takes nobody's processor.
    """
    # Before anything else waits for what the client sends.
    limiter = get_dependencies(request).hub_limiter if await _names_hub(request) else None

    async def read_and_respond() -> ASGIApp:
        return await respond(await anyio.to_thread.run_sync(read, limiter=limiter))

    return await run_until_disconnect(request.receive, read_and_respond)


def run_search(
    deps: Dependencies, search: Callable[[Q, Means], A], question: Q, budget: Budget
) -> A:
    """Return what a search finds, in a process beside this one.

    ``search`` is a function of a module; where there is no such process, it is called here.
    """
    return deps.searches.run(
        search, question, budget, plans=deps.plans, corrections=deps.corrections
    )


async def compute_import(request: Request[Any, Any, Any], answer: Callable[[Budget], T]) -> T:
    """Read what was handed in, one file at a time.

    A file of tens of megabytes may take a gigabyte of memory while it is read. What was begun is
    brought to its end, whoever leaves.
    """
    deps = get_dependencies(request)
    return await compute(deps, request.scope, deps.import_turns, answer)


async def run_in_thread_until_disconnect(
    request: Request[Any, Any, Any], answer: Callable[[], ASGIApp]
) -> ASGIApp:
    """Make a quick answer in a thread, cancelled on disconnect."""
    return await run_until_disconnect(request.receive, partial(anyio.to_thread.run_sync, answer))


async def _names_hub(request: Request[Any, Any, Any]) -> bool:
    """Return whether the text of a question names a hub."""
    return b"hub=" in request.scope["query_string"] or b'"hub"' in await request.body()


async def compute(
    deps: Dependencies, scope: HTTPScope, turns: Turns, answer: Callable[[Budget], T]
) -> T:
    """Compute an answer in a thread at this caller's turn.

    What it took counts against who asked, who may have left: against his next turn, and against
    the rate of his key.
    """
    async with turns.take(get_asker(scope)):
        return await compute_at_turn(deps, lambda: scope, turns, answer)


async def compute_at_turn(
    deps: Dependencies,
    get_payer: Callable[[], HTTPScope],
    turns: Turns,
    answer: Callable[[Budget], T],
) -> T:
    """Compute an answer in a thread, at a turn that is held.

    What it took counts against who pays when it ends.
    """
    budget = Budget(seconds=deps.settings.question_budget_s)
    try:
        # Threads of their own: what computes takes none from what reads a database.
        return await anyio.to_thread.run_sync(
            partial(_compute, deps, get_payer, budget, answer), limiter=deps.computing_limiter
        )
    finally:
        turns.count(get_asker(get_payer()), budget.spent_s)


def get_asker(scope: HTTPScope) -> str:
    """Return whose turn a request takes.

    It is the key's or token's, else that of the address it came from.
    """
    principal = get_principal(scope)
    if principal is not None and principal.usage_key is not None:
        return principal.usage_key
    client = scope.get("client")
    return "" if client is None else str(client[0])


def _compute(
    deps: Dependencies,
    get_payer: Callable[[], HTTPScope],
    budget: Budget,
    answer: Callable[[Budget], T],
) -> T:
    budget.check()
    try:
        return answer(budget)
    finally:
        budget.count()
        _charge(deps, get_payer(), budget.spent_s)


def _charge(deps: Dependencies, scope: HTTPScope, spent_s: float) -> None:
    """Count a long answer as several requests.

    The next one is refused, not this one.
    """
    principal, number = get_principal(scope), int(spent_s / UNIT_S)
    if principal is None or principal.rate is None:
        return
    while number > 0:
        with suppress(TooManyRequestsError):
            deps.charge_rate(principal, number)
            return
        # All of them or none are counted: what is left of the rate is used up by halves.
        number //= 2

"""Searches asked for by tests, in processes and without."""

from collections.abc import Callable
from typing import Any, TypeVar

from service.api.computing.budgets import Budget
from service.api.computing.means import Means
from service.api.computing.search_processes import SearchProcesses
from service.estimator.cache import PlanCache
from service.runtime.children.pool import ChildPool
from service.usecases.learning.corrections import CorrectionCache

Q = TypeVar("Q")
A = TypeVar("A")


def make_both(pool: ChildPool) -> tuple[SearchProcesses, SearchProcesses]:
    """Return processes that answer or fail, and none."""
    return SearchProcesses(pool, on_failure=_fail), SearchProcesses()


def ask(
    searches: SearchProcesses,
    function: Callable[[Q, Means], A],
    question: Q,
    *,
    budget: Budget | None = None,
    corrections: CorrectionCache | None = None,
) -> A:
    """Return the answer for somebody who waits."""
    return searches.run(
        function,
        question,
        budget or make_budget(),
        plans=PlanCache(),
        corrections=corrections or CorrectionCache(read_changed=lambda _since: ()),
    )


def make_budget(seconds: float = 30.0) -> Budget:
    """Return a budget of somebody who waits."""
    return Budget(seconds=seconds, check_caller=lambda: None)


def drop_times(document: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return an answer without what no two have alike."""
    match document:
        case dict():
            left_out = {"elapsed_s", "elapsed_ms", "request_id"}
            return {name: drop_times(document[name]) for name in document.keys() - left_out}
        case list():
            return [drop_times(item) for item in document]
        case _:
            return document


def _fail() -> None:
    message = "no process answered"
    raise AssertionError(message)

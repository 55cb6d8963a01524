"""Computation of searches in processes beside the server's."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TypeVar

from service.api.computing.budgets import SMALLER, Budget, TooCostlyError
from service.api.computing.means import Means, make_means
from service.api.computing.search_child import compute
from service.base.errors import UnavailableError
from service.estimator.cache import PlanCache
from service.estimator.values.units import format_bytes
from service.runtime.children.limits import Limits
from service.runtime.children.messages import encode_message
from service.runtime.children.pool import (
    ChildError,
    ChildPool,
    MemoryExceededError,
    TimeExceededError,
    TravelError,
)
from service.runtime.children.starting import ChildStartError
from service.runtime.logs import get_logger
from service.usecases.learning.corrections import CorrectionCache
from service.usecases.learning.lookup import CorrectionLookup

Q = TypeVar("Q")
A = TypeVar("A")
SEARCH_MODULES = ("service.api.computing.searches", "service.api.computing.search_child")
"""What a process that computes has loaded before it is asked: no framework, no database."""
MEMORY_BYTES = 2**30
"""Memory that one answer may take beyond what its process keeps, at most."""
_GRACE_S = 5.0
"""Beyond its budget, which an answer checks itself, the kernel ends its process."""
_log = get_logger(__name__)


class SearchProcesses:
    """Processes that compute; without a pool the thread that asks does."""

    def __init__(
        self,
        pool: ChildPool | None = None,
        *,
        memory_bytes: int = MEMORY_BYTES,
        cache_dir: Path | None = None,
        on_failure: Callable[[], None] = lambda: None,
    ) -> None:
        """Compute in children of ``pool``, which keep recordings in ``cache_dir``.

        An answer may take ``memory_bytes`` there. ``on_failure`` is called where one of them ends
        without an answer, or none can be asked.
        """
        self._pool, self._cache_dir, self._on_failure = pool, cache_dir, on_failure
        self._memory_bytes = memory_bytes
        self._encoded: tuple[CorrectionLookup, bytes] | None = None

    @property
    def is_here(self) -> bool:
        """Whether this process computes."""
        return self._pool is None

    def run(
        self,
        function: Callable[[Q, Means], A],
        question: Q,
        budget: Budget,
        *,
        plans: PlanCache,
        corrections: CorrectionCache,
    ) -> A:
        """Return a function's answer to a question.

        ``plans`` are those of this process, where it computes. Raises what the function raises,
        TooCostlyError past the budget of time or memory, UnavailableError where the process that
        computes ends by itself, and the cancellation of the request once nobody waits.
        """
        if self._pool is None:
            return function(question, make_means(budget, plans, corrections))
        try:
            return self._call(self._pool, function, question, budget, corrections.lookup)
        except MemoryExceededError as error:
            message = (
                f"the answer takes more than {format_bytes(self._memory_bytes)} of memory, which "
                f"is what one question may; {SMALLER}"
            )
            raise TooCostlyError(message, budget_bytes=self._memory_bytes) from error
        except TimeExceededError as error:
            raise TooCostlyError(budget.describe(), budget_s=budget.seconds) from error
        except (TravelError, ChildStartError) as error:
            self._refuse_at_end(self._pool, error)
            self._report(question, error)
            # Slower for others than a child's answer, and better for who asks than none.
            return function(question, make_means(budget, plans, corrections))
        except ChildError as error:
            self._refuse_at_end(self._pool, error)
            self._report(question, error)
            # What ended that process, memory of the machine for one, would end this one.
            message = f"the question was not answered, {error}; ask again, or for less: {SMALLER}"
            raise UnavailableError(message) from error

    def _call(
        self,
        pool: ChildPool,
        function: Callable[[Q, Means], A],
        question: Q,
        budget: Budget,
        corrections: CorrectionLookup,
    ) -> A:
        answer: A = pool.call(
            compute,
            function,
            question,
            budget.seconds,
            corrections.snapshot.version,
            self._cache_dir,
            limits=Limits(memory_bytes=self._memory_bytes, processor_s=budget.seconds + _GRACE_S),
            check=budget.check_caller,
            count=budget.add,
            answers={"corrections": partial(self._encode, corrections)},
        )
        return answer

    def _encode(self, corrections: CorrectionLookup) -> bytes:
        """Encode what is learnt, once for all processes.

        Thousands of keys take tenths of a second. A thread that comes meanwhile encodes them too.
        """
        encoded = self._encoded
        if encoded is None or encoded[0] is not corrections:
            encoded = self._encoded = corrections, encode_message(corrections)
        return encoded[1]

    def _refuse_at_end(self, pool: ChildPool, error: Exception) -> None:
        if pool.is_closed:
            message = "the question was not answered, the server stops; ask again"
            raise UnavailableError(message) from error

    def _report(self, question: object, error: Exception) -> None:
        self._on_failure()
        _log.warning("search.process_failed", reason=str(error), question=type(question).__name__)

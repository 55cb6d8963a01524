"""Means of an answer: recordings, corrections, the check of a budget."""

from collections.abc import Callable
from dataclasses import dataclass

from service.api.computing.budgets import Budget
from service.estimator.cache import PlanCache
from service.usecases.questions.fit import FindCorrections


@dataclass(frozen=True, slots=True, kw_only=True)
class Means:
    """Recordings, corrections and the check of a budget."""

    plans: PlanCache
    find: FindCorrections
    check: Callable[[], None]


def make_means(budget: Budget, plans: PlanCache, find: FindCorrections) -> Means:
    """Return the means of an answer that its budget ends."""
    return Means(
        plans=plans.with_cancellation(budget.check), find=budget.limit(find), check=budget.check
    )

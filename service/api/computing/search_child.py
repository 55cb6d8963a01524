"""Computation of answers in a process beside the server."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from service.api.computing.budgets import Budget
from service.api.computing.means import Means, make_means
from service.estimator.cache import PlanCache
from service.runtime.children import child
from service.runtime.children.messages import decode_message
from service.runtime.recording_files import make_recording_store
from service.usecases.learning.lookup import CorrectionLookup
from service.usecases.learning.resolving import Snapshot

Q = TypeVar("Q")
A = TypeVar("A")


class _Kept:
    """Values that this process keeps from one answer to the next."""

    plans: PlanCache | None = None
    corrections = CorrectionLookup(Snapshot())


def compute(
    function: Callable[[Q, Means], A],
    question: Q,
    budget_s: float,
    version: int,
    cache_dir: Path | None,
) -> A:
    """Answer a question.

    It rests on what the server has learnt up to ``version``.
    """
    if _Kept.plans is None:
        _Kept.plans = PlanCache(store=make_recording_store(cache_dir))
    if _Kept.corrections.snapshot.version != version:
        _Kept.corrections = decode_message(child.ask_server("corrections"))
    budget = Budget(seconds=budget_s, check_caller=child.check_cancelled)
    return function(question, make_means(budget, _Kept.plans, _Kept.corrections))

"""Remedies: changes of a question that make it fit, or save bytes."""

from collections.abc import Mapping
from dataclasses import dataclass

from service.estimator.values.layout import Layout
from service.estimator.values.workload import Workload
from service.planner.fit.verdict import Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedyCost:
    """Time and money of a changed question, beside those without the change.

    Each ratio is over that before: ``time_ratio`` the whole job's time per token,
    ``gpu_time_ratio`` the GPU time per token, ``cost_ratio`` the money per token, which on GPUs of
    one kind is their time. They are None where two kinds of GPU cannot be compared. Steps are in
    seconds and prices in USD, None where the GPU's rates or price are unknown.
    """

    time_ratio: float | None
    gpu_time_ratio: float | None
    cost_ratio: float | None
    step_time_s: float | None = None
    tokens_per_second: float | None = None
    usd_per_million_tokens: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remedy:
    """A change with its savings per GPU, its verdict and its cost.

    Asked by itself, it gives the same. ``effects`` name what it changes in the result, nothing
    where the job's numbers stay; ``gpu`` is the kind of GPU with the change.
    """

    change: Mapping[str, object]
    saves_bytes: int
    verdict: Verdict
    cost: RemedyCost
    effects: tuple[str, ...]
    gpu: str
    num_gpus: int
    workload: Workload
    layout: Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class RemedySearch:
    """Extent of a search for remedies, and its conclusion.

    ``num_changes`` is the most changes that were taken together; ``is_complete`` is false where the
    limit of estimates ended the search.
    """

    num_estimates: int
    max_estimates: int
    num_changes: int
    is_complete: bool
    conclusion: str

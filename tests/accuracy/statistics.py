"""What a set of scores says as a whole."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from tests.accuracy.scoring import Score


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Relative errors of one quantity: absolute ones, but for ``bias``, which is the mean of the
    signed ones.
    """

    quantity: str
    num_cases: int
    median: float
    p95: float
    max: float
    bias: float
    num_under: int
    coverage: float | None


def summarise(quantity: str, scores: Sequence[Score]) -> Summary:
    """Return the summary of at least one score."""
    errors = sorted(abs(score.error) for score in scores)
    covered = [score.covered for score in scores if score.covered is not None]
    return Summary(
        quantity=quantity,
        num_cases=len(scores),
        median=median(errors),
        p95=percentile(errors, 95),
        max=errors[-1],
        bias=fmean(score.error for score in scores),
        num_under=sum(score.difference < 0 for score in scores),
        coverage=fmean(covered) if covered else None,
    )


def percentile(ascending: Sequence[float], percent: int) -> float:
    """Return the smallest value that at least ``percent`` per cent of the values do not exceed
    (nearest rank).
    """
    rank = -(-len(ascending) * percent // 100)
    return ascending[rank - 1]


NEGLIGIBLE = 1e-6
"""Relative errors below one millionth are a few bytes of counters and scalars; nobody looks for
their cause.
"""


def worst(scores: Sequence[Score], count: int) -> list[Score]:
    """Return the scores that are furthest off, of those that are off by a millionth or more."""
    wrong = [score for score in scores if abs(score.error) >= NEGLIGIBLE]
    return sorted(wrong, key=lambda score: -abs(score.error))[:count]


def quantities(scores: Sequence[Score]) -> list[str]:
    """Return the quantities in order of appearance."""
    return list(dict.fromkeys(score.quantity for score in scores))

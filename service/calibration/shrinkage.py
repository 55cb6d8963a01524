"""How far a mean may be believed: random effects, with both variances taken from the residuals themselves.

A group's mean lies around its parent's with a variance between groups, and is known with a variance of its own. The best
linear predictor moves from the parent to the mean by between / (between + own) (Robinson, Statistical Science 6, 1991). The
variance between groups is what the squared distances from the parent hold beyond the means' own variances (Efron and Morris,
JASA 70, 1975); no group is held back further than its own distance asks for (their limited translation, JASA 67, 1972).
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean of residuals and the variance with which it is known; ``count`` says of how many."""

    value: float
    variance: float
    count: int = 1


def weight(mean: Mean, *, parent: float = 0.0, between: float = 0.0) -> float:
    """Return how far to move from the parent to a mean, 0 to 1; ``between`` is the variance of groups like it."""
    distance = (mean.value - parent) ** 2
    if not distance:
        return 0.0
    own = max(0.0, distance - mean.variance)
    spread = max(between, own)
    return spread / (spread + mean.variance) if spread else 0.0


def shrunk(mean: Mean, *, parent: float = 0.0, between: float = 0.0) -> float:
    """Return the mean, moved towards its parent."""
    return parent + weight(mean, parent=parent, between=between) * (mean.value - parent)


def between_variance(means: Sequence[Mean], *, parent: float = 0.0) -> float:
    """Return the variance of groups around their parent beyond what their means are uncertain by; 0 of fewer than two."""
    if len(means) < 2:  # noqa: PLR2004 - one group says nothing of how groups differ
        return 0.0
    return max(0.0, sum((mean.value - parent) ** 2 - mean.variance for mean in means) / len(means))


def mean_of_groups(means: Sequence[Mean]) -> Mean | None:
    """Return the mean over groups that weigh alike, with the variance that their differences give it; None of fewer than two.

    What one group shows may be its own: only another one that agrees makes it something that they share.
    """
    if len(means) < 2:  # noqa: PLR2004 - one group says nothing of how groups differ
        return None
    count = len(means)
    middle = sum(mean.value for mean in means) / count
    spread = sum((mean.value - middle) ** 2 for mean in means) / (count - 1)
    # Means that happen to agree are still known no better than each of them is.
    own = sum(mean.variance for mean in means) / count
    return Mean(value=middle, variance=max(spread, own) / count, count=sum(mean.count for mean in means))

"""Shrinkage of group means towards a prior (random effects).

A group's mean lies around its prior with a variance between groups, and is known with a variance of
its own; both variances are taken from the residuals themselves. The best linear predictor moves
from the prior to the mean by between / (between + own) (Robinson, Statistical Science 6, 1991). The
variance between groups is what the squared distances from the prior hold beyond the means' own
variances (Efron and Morris, JASA 70, 1975); no group is held back further than its own distance
asks for (their limited translation, JASA 67, 1972).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import copysign, sqrt

_FAR = 2.576
"""Standard deviations that one normal draw in a hundred exceeds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Mean:
    """A mean of residuals and its variance.

    ``count`` is the number of residuals.
    """

    value: float
    variance: float
    count: int = 1


def compute_weight(mean: Mean, *, prior: float = 0.0, between: float = 0.0) -> float:
    """Return the shrinkage weight of a mean against its prior.

    From 0, the prior, to 1, the mean; ``between`` is the variance of groups like it.
    """
    distance = (mean.value - prior) ** 2
    if not distance:
        return 0.0
    excess_variance = max(0.0, distance - mean.variance)
    spread = max(between, excess_variance)
    return spread / (spread + mean.variance) if spread else 0.0


def shrink(mean: Mean, *, prior: float = 0.0, between: float = 0.0) -> float:
    """Shrink a mean towards its prior."""
    return prior + compute_weight(mean, prior=prior, between=between) * (mean.value - prior)


def shrink_firmly(mean: Mean, *, prior: float = 0.0) -> float:
    """Shrink a mean towards its prior, unless it is far.

    Within its standard deviation it is the prior, beyond ``_FAR`` of them the mean, and a straight
    line leads from one to the other (firm shrinkage: Gao and Bruce, Statistica Sinica 7, 1997).
    What is far from the prior would be pulled there for no reason.
    """
    deviation = sqrt(mean.variance)
    distance = abs(mean.value - prior)
    if not deviation:
        return mean.value
    share = min(max((distance / deviation - 1) / (_FAR - 1), 0.0), 1.0)
    moved = distance if share == 1 else share * _FAR * deviation
    return prior + copysign(moved, mean.value - prior)


def estimate_between_variance(means: Sequence[Mean], *, prior: float = 0.0) -> float:
    """Estimate the variance of groups around their prior.

    It is what goes beyond the uncertainty of their means; 0 for fewer than two.
    """
    if len(means) < 2:  # noqa: PLR2004 - one group says nothing of how groups differ
        return 0.0
    return max(0.0, sum((mean.value - prior) ** 2 - mean.variance for mean in means) / len(means))


def average_groups(means: Sequence[Mean]) -> Mean | None:
    """Average groups with equal weight.

    The variance comes from their differences; None for fewer than two.

    What one group shows may be its own: only another one that agrees makes it something that they
    share.
    """
    if len(means) < 2:  # noqa: PLR2004 - one group says nothing of how groups differ
        return None
    count = len(means)
    middle = sum(mean.value for mean in means) / count
    spread = sum((mean.value - middle) ** 2 for mean in means) / (count - 1)
    # Means that happen to agree are still known no better than each of them is.
    mean_variance = sum(mean.variance for mean in means) / count
    return Mean(
        value=middle,
        variance=max(spread, mean_variance) / count,
        count=sum(mean.count for mean in means),
    )

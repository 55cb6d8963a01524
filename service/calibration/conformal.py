"""Split conformal prediction: interval widths and their coverage test.

The smallest width that holds ``(n + 1) * level`` of n residuals which had no part in what they are
residuals of (arXiv:1604.04173). With fewer residuals than that there is no such width. A test says
when intervals hold less than they should.
"""

from math import comb

from service.estimator.memory.intervals.ends import LEVEL


def is_coverage_too_low(num_outside: int, num_measured: int, level: float = LEVEL) -> bool:
    """Return whether significantly many measurements lie outside their intervals.

    Significant is more than 97.5 % of all draws have, when each is held at ``level``.
    """
    if not num_outside:
        return False
    fewer = sum(
        comb(num_measured, count) * (1 - level) ** count * level ** (num_measured - count)
        for count in range(num_outside)
    )
    return fewer >= (1 + level) / 2

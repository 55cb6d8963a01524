"""How wide an interval has to be to hold a share of what has not been seen, and when it holds less than it should.

Split conformal prediction (arXiv:1604.04173): the smallest width that holds ``(n + 1) * level`` of n residuals which had no
part in what they are residuals of. With fewer residuals than that there is no such width.
"""

from math import comb

from service.estimator.memory.intervals.ends import LEVEL


def too_many_outside(num_outside: int, num_measured: int, level: float = LEVEL) -> bool:
    """Tell whether more lie outside of their intervals than 97.5 % of all draws have, when each is held at ``level``."""
    if not num_outside:
        return False
    fewer = sum(
        comb(num_measured, count) * (1 - level) ** count * level ** (num_measured - count) for count in range(num_outside)
    )
    return fewer >= (1 + level) / 2

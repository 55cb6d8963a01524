"""Split conformal prediction over groups: how wide an interval has to be to hold a share of what has not been seen.

Every group of cases weighs the same, as in the tables, and one group more is counted at infinity for the one that is asked
next (arXiv:1604.04173 with weights, arXiv:1904.06019). Half of the groups, by the hash of their names, set the widths; the
other half measures the coverage.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import comb, inf

LEVEL = 0.95
MIN_GROUPS = 10
"""Fewer groups say nothing of a kind of its own. Below 39 a width is the extremes of what was seen."""
NARROWEST = 0.0005
"""No interval is narrower to either side: where every case is met to the byte, the next one may round differently."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One reading over its answer: ``low`` to ``high`` is what its print allows."""

    kind: str
    quantity: str
    group: str
    low: float
    high: float

    @property
    def ratio(self) -> float:
        """The reading over the answer, 1 where the print allows that."""
        return min(max(1.0, self.low), self.high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Width:
    """Lowest and highest reading over an answer, and how many groups said so."""

    low: float
    high: float
    num_groups: int


def sets_widths(group: str) -> bool:
    """Tell whether a group is of the half that sets widths; the other half measures coverage."""
    return sha256(group.encode()).digest()[0] % 2 == 0


def width(residuals: Sequence[Residual], level: float = LEVEL) -> Width:
    """Return the width that holds ``level`` of the next group's readings; the extremes where there are too few groups."""
    sizes = Counter(residual.group for residual in residuals)
    weighted = [(residual.ratio, 1 / sizes[residual.group]) for residual in residuals]
    share = (1 + level) / 2
    high = _quantile(sorted(weighted), share * (len(sizes) + 1))
    low = -_quantile(sorted((-ratio, weight) for ratio, weight in weighted), share * (len(sizes) + 1))
    return Width(low=min(low, 1 - NARROWEST), high=max(high, 1 + NARROWEST), num_groups=len(sizes))


def coverage(residuals: Iterable[Residual], widths: Width) -> tuple[float, int]:
    """Return the share of readings that widths hold, every group with the same weight, and the number of groups."""
    held: dict[str, list[bool]] = {}
    for residual in residuals:
        held.setdefault(residual.group, []).append(residual.low <= widths.high and widths.low <= residual.high)
    shares = [sum(group) / len(group) for group in held.values()]
    return (sum(shares) / len(shares) if shares else inf), len(shares)


def binomial_range(num_groups: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the shares between which 95 % of all draws of so many groups lie, when each of them is held at ``level``."""
    cumulative, low, high = 0.0, None, num_groups
    for count in range(num_groups + 1):
        cumulative += comb(num_groups, count) * level**count * (1 - level) ** (num_groups - count)
        if low is None and cumulative > (1 - level) / 2:
            low = count
        if cumulative >= (1 + level) / 2:
            high = count
            break
    return (low or 0) / num_groups, high / num_groups


def _quantile(ascending: Sequence[tuple[float, float]], mass: float) -> float:
    """Return the smallest value up to which there is so much weight, the largest one where there is not."""
    total = 0.0
    for value, weight in ascending:
        total += weight
        if total >= mass:
            return value
    return ascending[-1][0]

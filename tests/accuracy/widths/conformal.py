"""Conformal prediction over groups: how wide an interval has to be to hold a share of what has not
been seen.

Every group of cases weighs the same, as in the tables, and one group more is counted at infinity
for the one that is asked next (arXiv:1604.04173 with weights, arXiv:1904.06019). All groups set the
widths that answers get. What they cover is measured ten times, each time on a tenth of the groups
with the widths that the other nine tenths set (cross-conformal, arXiv:1208.0806).
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import ceil, comb

LEVEL = 0.95
MIN_GROUPS = 10
"""Fewer groups say nothing of a kind of its own."""
NUM_FOLDS = 10
NARROWEST = 0.0005
"""No interval is narrower to either side: where every case is met to the byte, the next one may
round differently.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Residual:
    """One reading over its answer: ``low`` to ``high`` is what its print allows."""

    kind: str
    quantity: str
    group: str
    low: float
    high: float
    model: str = ""
    """The model of a residual that judges answers about recorded GPUs alone."""
    blocks: float = 1.0
    """What the allocator hands out for the tensors of the answer, over their bytes."""

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


def fold_of(group: str) -> int:
    """Return the tenth that a group belongs to, by the hash of its name."""
    return int.from_bytes(sha256(group.encode()).digest()[:4]) % NUM_FOLDS


def width(residuals: Sequence[Residual], level: float = LEVEL) -> Width:
    """Return the width that holds ``level`` of the next group's readings; the extremes where there
    are too few groups.
    """
    sizes = Counter(residual.group for residual in residuals)
    weighted = [(residual.ratio, 1 / sizes[residual.group]) for residual in residuals]
    share = (1 + level) / 2
    high = _quantile(sorted(weighted), share * (len(sizes) + 1))
    low = -_quantile(
        sorted((-ratio, weight) for ratio, weight in weighted), share * (len(sizes) + 1)
    )
    return Width(low=min(low, 1 - NARROWEST), high=max(high, 1 + NARROWEST), num_groups=len(sizes))


def ends(values: Sequence[float], level: float) -> tuple[float, float]:
    """Return both ends of what holds ``level`` of the next value; the extremes where there are too
    few.
    """
    ascending, rank = sorted(values), (1 + level) / 2 * (len(values) + 1)
    last = min(ceil(round(rank, 6)), len(values))
    return ascending[-last], ascending[last - 1]


def holds(widths: Width, residual: Residual) -> bool:
    """Tell whether a reading touches the interval that widths make."""
    return residual.low <= widths.high and widths.low <= residual.high


def carried(num_groups: int) -> float:
    """Return the highest level that so many groups carry: one of them has to stand at either
    end.
    """
    return (num_groups - 1) / (num_groups + 1)


def coverage(held: Iterable[tuple[str, bool]]) -> tuple[float, int]:
    """Return the share of readings that are held, every group with the same weight, and the number
    of groups.
    """
    groups: dict[str, list[bool]] = {}
    for group, inside in held:
        groups.setdefault(group, []).append(inside)
    shares = [sum(group) / len(group) for group in groups.values()]
    return (sum(shares) / len(shares) if shares else 0.0), len(shares)


def binomial_range(num_groups: int, level: float = LEVEL) -> tuple[float, float]:
    """Return the shares between which 95 % of all draws of so many groups lie, when each of them is
    held at ``level``.
    """
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
    """Return the smallest value up to which there is so much weight, the largest one where there is
    not.
    """
    total = 0.0
    for value, weight in ascending:
        total += weight
        if total >= mass:
            return value
    return ascending[-1][0]

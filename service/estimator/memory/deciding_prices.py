"""Prices that are the highest at some batch and sequence."""

from collections.abc import Sequence
from itertools import pairwise

from service.estimator.tape import sizes
from service.estimator.tape.sizes import Size

_PER_TOKEN, _AT_ONE = 2, 5
"""Places in a bound of what grows with batch and sequence, and of what is there without them."""


def select_deciding(prices: Sequence[Size]) -> list[int]:
    """Return the indices of prices that can be the highest.

    They are in order. Of equally high prices the first one counts.
    """
    bounds = [sizes.expand_at_one(price) for price in prices]
    hull = _find_hull(bounds)
    # The hull leaves few of them out of many; those are compared with each other.
    survivors = [
        index
        for index in range(len(bounds))
        if not _is_dominated(bounds, index, hull)
        and (index in hull or not _is_between(bounds, index, hull))
    ]
    return [index for index in survivors if not _is_dominated(bounds, index, survivors)]


def _is_dominated(bounds: Sequence[Size], index: int, others: Sequence[int]) -> bool:
    """Return whether another price makes one superfluous.

    An earlier one does that is never below it, or a later one that is always above.
    """
    a, b, c, d, e, f = bounds[index]
    for other in others:
        # Written out, since a step's points are compared a hundred thousand times.
        g, h, i, j, k, m = bounds[other]
        covers = m >= f and g >= a and h >= b and i >= c and j >= d and k >= e
        if covers and other != index and (other < index or m > f):
            return True
    return False


def _find_hull(bounds: Sequence[Size]) -> list[int]:
    """Return the upper hull of prices.

    Its axes are the bytes per token and the bytes at one token.
    """
    hull: list[int] = []
    for index in sorted(range(len(bounds)), key=lambda index: bounds[index][_PER_TOKEN]):
        x, y = bounds[index][_PER_TOKEN], bounds[index][_AT_ONE]
        while len(hull) > 1:
            (a, b), (c, d) = ((bounds[one][_PER_TOKEN], bounds[one][_AT_ONE]) for one in hull[-2:])
            if (c - a) * (y - b) < (d - b) * (x - a):
                break
            hull.pop()
        hull.append(index)
    return hull


def _is_between(bounds: Sequence[Size], index: int, hull: Sequence[int]) -> bool:
    """Return whether a mixture of two neighbours covers a price.

    The neighbours are on the hull, and the mixture is never below the price. One of the two is
    above it then, or both are equal to it, and one of them comes before it.
    """
    x = bounds[index][_PER_TOKEN]
    for left, right in pairwise(hull):
        is_between = bounds[left][_PER_TOKEN] <= x <= bounds[right][_PER_TOKEN]
        if is_between and min(left, right) < index:
            return _has_mixture(bounds[left], bounds[right], bounds[index])
    return False


def _has_mixture(left: Size, right: Size, bound: Size) -> bool:
    """Return whether a mixture of two prices covers another price.

    The mixture is some share of one price and the rest of the other. Shares are kept as
    numerator and denominator: they are compared exactly.
    """
    (lowest, below), (highest, above) = (0, 1), (1, 1)
    for one, other, least in zip(left, right, bound, strict=True):
        missing, gained = least - other, one - other
        if gained > 0 and missing * below > lowest * gained:
            lowest, below = missing, gained
        elif gained < 0 and missing * above > highest * gained:
            highest, above = -missing, -gained
        elif not gained and missing > 0:
            return False
    return lowest * above <= highest * below and lowest < below and highest > 0

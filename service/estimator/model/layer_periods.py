"""Periods in which kinds of layers repeat."""

from itertools import groupby

Period = tuple[tuple[int, int], ...]
"""Kinds of layers with the number of neighbours of each."""


def find_period(order: tuple[int, ...]) -> int:
    """Return the length of the shortest period of the order.

    The whole order repeats it, its last time perhaps cut short.
    """
    lengths = range(1, len(order) + 1)
    return next(
        n for n in lengths if all(kind == order[index % n] for index, kind in enumerate(order))
    )


def split_periods(order: tuple[int, ...]) -> tuple[tuple[Period, int], ...]:
    """Return the order's shortest period with its repeats, and the rest."""
    length = find_period(order)
    times, remainder = divmod(len(order), length)
    periods = [(order[:length], times), (order[:remainder], 1)]
    return tuple((_group_neighbours(kinds), count) for kinds, count in periods if kinds)


def _group_neighbours(kinds: tuple[int, ...]) -> Period:
    return tuple((kind, len(list(equal))) for kind, equal in groupby(kinds))

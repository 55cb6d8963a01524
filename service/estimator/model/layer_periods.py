"""Periods in which kinds of layers repeat."""


def find_period(order: tuple[int, ...]) -> int:
    """Return the length of the shortest period of the order.

    The whole order repeats it, its last time perhaps cut short.
    """
    lengths = range(1, len(order) + 1)
    return next(
        n for n in lengths if all(kind == order[index % n] for index, kind in enumerate(order))
    )

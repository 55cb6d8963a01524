"""Sizes as polynomials in batch size and sequence length.

One recording then answers every batch and sequence. A size is a tuple of coefficients over the
monomials ``1, b, s, b*s, s*s, b*s*s``: ``b`` sequences of ``s`` tokens. All bytes and element
counts of a tape are sizes; they become integers in ``evaluate``.
"""

from collections.abc import Iterable

Size = tuple[int, int, int, int, int, int]

ZERO: Size = (0, 0, 0, 0, 0, 0)


def constant(count: int) -> Size:
    """Return a size that depends on neither batch nor sequence."""
    return (count, 0, 0, 0, 0, 0)


def per_sequence(count: int) -> Size:
    """Return ``count`` for each sequence of the batch."""
    return (0, count, 0, 0, 0, 0)


def per_position(count: int) -> Size:
    """Return ``count`` for each position, shared by all sequences."""
    return (0, 0, count, 0, 0, 0)


def per_token(count: int) -> Size:
    """Return ``count`` for each token of the batch."""
    return (0, 0, 0, count, 0, 0)


def per_mask_element(count: int) -> Size:
    """Return ``count`` for each pair of positions, shared by all sequences."""
    return (0, 0, 0, 0, count, 0)


def per_score(count: int) -> Size:
    """Return ``count`` for each pair of positions of each sequence."""
    return (0, 0, 0, 0, 0, count)


def add(left: Size, right: Size) -> Size:
    """Return the sum of two sizes."""
    a, b, c, d, e, f = left
    g, h, i, j, k, m = right
    return (a + g, b + h, c + i, d + j, e + k, f + m)


def subtract(left: Size, right: Size) -> Size:
    """Return the difference of two sizes."""
    a, b, c, d, e, f = left
    g, h, i, j, k, m = right
    return (a - g, b - h, c - i, d - j, e - k, f - m)


def scale(size: Size, factor: int) -> Size:
    """Return a size times an integer."""
    a, b, c, d, e, f = size
    return (a * factor, b * factor, c * factor, d * factor, e * factor, f * factor)


def count_rows(size: Size, width: int) -> Size:
    """Return how many rows of ``width`` elements make up a size."""
    a, b, c, d, e, f = size
    return (a // width, b // width, c // width, d // width, e // width, f // width)


def total(sizes: Iterable[Size]) -> Size:
    """Return the sum of many sizes."""
    result = ZERO
    for size in sizes:
        result = add(result, size)
    return result


def expand_at_one(size: Size) -> Size:
    """Return a size's coefficients around one sequence of one token.

    The last one is its value there. With ``b = 1 + u`` and ``s = 1 + v`` the size is a polynomial
    in ``u`` and ``v``, which are 0 or more.
    """
    a, b, c, d, e, f = size
    return (f, e + f, d + f + f, c + d + e + e + f + f, b + d + f, a + b + c + d + e + f)


def covers(larger: Size, smaller: Size) -> bool:
    """Return whether ``larger`` is at least ``smaller`` everywhere.

    That is for every batch and sequence, both of which are 1 or more: no coefficient of their
    difference around one sequence of one token may be negative.
    """
    return all(coefficient >= 0 for coefficient in expand_at_one(subtract(larger, smaller)))


def evaluate_monomials(batch: int, sequence: int) -> Size:
    """Return the values of the monomials for one batch and sequence."""
    return (1, batch, sequence, batch * sequence, sequence * sequence, batch * sequence * sequence)


def evaluate(size: Size, values: Size) -> int:
    """Return the size as an integer for given monomial values."""
    a, b, c, d, e, f = size
    g, h, i, j, k, m = values
    return a * g + b * h + c * i + d * j + e * k + f * m

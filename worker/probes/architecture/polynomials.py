"""Sizes as polynomials of batch and length, exact or refused."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from service.estimator.tape.sizes import ZERO, Size, evaluate, evaluate_monomials
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.listen import Extent

LENGTH_STEP = 64
"""Tokens of which a length is a multiple where kernels pad other lengths."""
PROVED = Extent(batch=5, length=331)
"""Extent that each polynomial must meet without having been fitted to it."""
ALIGNED = Extent(batch=5, length=5 * LENGTH_STEP)
"""The same where lengths are multiples of a step."""
FEW = (Extent(batch=2, length=64), Extent(batch=3, length=128))
"""Extents that determine, with a third, a size of one monomial: their ratios differ there."""
FITTED = tuple(Extent(batch=batch, length=length) for batch in (2, 3) for length in (64, 128, 192))
"""Extents that determine the six coefficients of a size."""
EXTENTS = (*FITTED, PROVED)


class NoPolynomial(Refusal):
    """A size that is no polynomial of those that were looked for."""


def fit_size(counts: Sequence[int], extents: tuple[Extent, ...] = EXTENTS) -> Size:
    """Return the polynomial of a size, from its values at ``extents``.

    Raises NoPolynomial where there is none with integer coefficients.
    """
    return _fit(tuple(counts), extents)


@cache
def _fit(counts: tuple[int, ...], extents: tuple[Extent, ...]) -> Size:
    rows = [evaluate_monomials(extent.batch, extent.length) for extent in extents]
    size = _fit_monomial(counts, rows)
    if size is None and len(extents) > len(FITTED):
        size = _fit_all(counts, rows)
    if size is None:
        message = f"a size is no polynomial of batch and length: {counts} at {extents}"
        raise NoPolynomial(FailureKind.UNSUPPORTED, message)
    return size


def _fit_monomial(counts: Sequence[int], rows: Sequence[Size]) -> Size | None:
    """Return a size of one coefficient."""
    for place, column in enumerate(zip(*rows, strict=True)):
        factor, rest = divmod(counts[0], column[0])
        if not rest and all(factor * part == c for part, c in zip(column, counts, strict=True)):
            coefficients = [0] * len(ZERO)
            coefficients[place] = factor
            a, b, c, d, e, f = coefficients
            return (a, b, c, d, e, f)
    return None


def _fit_all(counts: Sequence[int], rows: Sequence[Size]) -> Size | None:
    """Return a size of several coefficients, met by all extents."""
    coefficients = [
        sum((part * count for part, count in zip(row, counts, strict=False)), Fraction(0))
        for row in _invert()
    ]
    a, b, c, d, e, f = map(int, coefficients)
    size = (a, b, c, d, e, f)
    meets_all = all(evaluate(size, row) == count for row, count in zip(rows, counts, strict=True))
    is_whole = all(coefficient.denominator == 1 for coefficient in coefficients)
    return size if is_whole and meets_all else None


@cache
def _invert() -> tuple[tuple[Fraction, ...], ...]:
    """Return the inverse of the matrix of monomials, by elimination."""
    rows = [
        [Fraction(value) for value in evaluate_monomials(extent.batch, extent.length)]
        + [Fraction(int(index == column)) for column in range(len(FITTED))]
        for index, extent in enumerate(FITTED)
    ]
    for column in range(len(FITTED)):
        pivot = next(row for row in range(column, len(rows)) if rows[row][column])
        rows[column], rows[pivot] = rows[pivot], rows[column]
        rows[column] = [value / rows[column][column] for value in rows[column]]
        for index, row in enumerate(rows):
            if index != column and row[column]:
                factor = row[column]
                rows[index] = [a - factor * b for a, b in zip(row, rows[column], strict=True)]
    return tuple(tuple(row[len(FITTED) :]) for row in rows)

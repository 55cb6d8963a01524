"""Sizes as polynomials of batch and length, exact or refused."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache

from service.estimator.tape.sizes import Size, evaluate, evaluate_monomials
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listen import Extent

FITTED = tuple(Extent(batch=batch, length=length) for batch in (2, 3) for length in (64, 128, 192))
"""Extents that determine the six coefficients of a size."""
PROVED = (Extent(batch=5, length=320),)
"""Extents that each polynomial must meet without having been fitted to them."""
EXTENTS = (*FITTED, *PROVED)


def fit_size(counts: Sequence[int]) -> Size:
    """Return the polynomial of a size, from its values at ``EXTENTS``.

    Raises Refusal where there is none with integer coefficients.
    """
    return _fit(tuple(counts))


@cache
def _fit(counts: tuple[int, ...]) -> Size:
    if len(set(counts)) == 1:
        return (counts[0], 0, 0, 0, 0, 0)
    coefficients = [
        sum((part * count for part, count in zip(row, counts, strict=False)), Fraction(0))
        for row in _invert()
    ]
    size = tuple(int(coefficient) for coefficient in coefficients)
    if any(coefficient.denominator != 1 for coefficient in coefficients) or any(
        evaluate(size, evaluate_monomials(extent.batch, extent.length)) != count  # type: ignore[arg-type]  # six of them
        for extent, count in zip(EXTENTS, counts, strict=True)
    ):
        message = f"a size is no polynomial of batch and length: {counts} at {EXTENTS}"
        raise Refusal(FailureKind.UNSUPPORTED, message)
    return size  # type: ignore[return-value]  # six of them


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

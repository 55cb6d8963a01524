"""Sizes of several traces as polynomials of their extents."""

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import prod

from service.estimator.pipelines.extents import NAMES, Extents
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal

Exponents = tuple[int, ...]
"""Powers of the extents, in the order of ``NAMES``."""
Polynomial = tuple[tuple[Exponents, int], ...]
_MOST_TERMS = 3


def _name(**powers: int) -> Exponents:
    return tuple(powers.get(name, 0) for name in NAMES)


_VIDEO = {"height": 1, "width": 1, "frames": 1}
_BASE = (
    _name(),
    _name(height=1),
    _name(width=1),
    _name(frames=1),
    _name(height=1, width=1),
    _name(**_VIDEO),
    _name(tokens=1),
    _name(height=2, width=2, frames=2),
    _name(**_VIDEO, tokens=1),
    _name(tokens=2),
)
MONOMIALS = tuple(
    tuple(p + (batch if name == "batch" else 0) for name, p in zip(NAMES, powers, strict=True))
    for batch in (0, 1)
    for powers in _BASE
)
"""What a tensor of a pipeline can be proportional to: pixels, frames, tokens and their pairs."""


def _list_products(batch: int, frames: int) -> tuple[Exponents, ...]:
    """Return what padded images, or videos, are sums of."""
    return tuple(
        _name(batch=batch, height=height, width=width, frames=frame)
        for frame in range(frames + 1)
        for height in (0, 1)
        for width in (0, 1)
    )


_BASES = (
    _list_products(0, 0),
    (*_list_products(1, 0), _name()),
    _list_products(0, 1),
    (*_list_products(1, 1), _name()),
)
"""What is tried where few terms do not do: a convolution's padded input, and its weight."""


class NoPolynomialError(Refusal):
    """Sizes that no polynomial of few terms has."""


def fit_sizes(sizes: Sequence[int], extents: Sequence[Extents]) -> Polynomial:
    """Return the polynomial that has these bytes at these extents.

    It has at most three terms, and more extents than terms prove it. Raises NoPolynomialError where
    there is none.
    """
    if not any(sizes):
        return ()
    columns = {
        powers: [evaluate_powers(powers, extent) for extent in extents]
        for powers in (*MONOMIALS, *_list_products(0, 1), *_list_products(1, 1))
    }
    for count in range(1, _MOST_TERMS + 1):
        for chosen in combinations(MONOMIALS, count):
            coefficients = _solve([columns[powers] for powers in chosen], sizes)
            if coefficients is not None:
                return tuple(zip(chosen, coefficients, strict=True))
    for basis in _BASES:
        if len(basis) < len(sizes):
            coefficients = _solve([columns[powers] for powers in basis], sizes, sparse=False)
            if coefficients is not None:
                pairs = zip(basis, coefficients, strict=True)
                return tuple((powers, value) for powers, value in pairs if value)
    message = f"sizes {list(sizes)} follow no polynomial of {', '.join(NAMES)}"
    raise NoPolynomialError(FailureKind.UNSUPPORTED, message)


def evaluate_powers(powers: Exponents, extents: Extents) -> int:
    """Return a monomial's value at extents."""
    return prod(extent**power for extent, power in zip(extents.numbers, powers, strict=True))


def _solve(
    columns: Sequence[Sequence[int]], sizes: Sequence[int], *, sparse: bool = True
) -> list[int] | None:
    """Return whole coefficients that hold at every extent, else None.

    ``sparse``: none of them is zero.
    """
    count = len(columns)
    rows = [
        [Fraction(column[place]) for column in columns] + [Fraction(sizes[place])]
        for place in range(len(sizes))
    ]
    for pivot in range(count):
        row = next((r for r in range(pivot, len(rows)) if rows[r][pivot]), None)
        if row is None:
            return None
        rows[pivot], rows[row] = rows[row], rows[pivot]
        head = rows[pivot][pivot]
        rows[pivot] = [value / head for value in rows[pivot]]
        for other in range(len(rows)):
            if other != pivot and rows[other][pivot]:
                factor = rows[other][pivot]
                rows[other] = [
                    a - factor * b for a, b in zip(rows[other], rows[pivot], strict=True)
                ]
    if any(rows[place][count] for place in range(count, len(rows))):
        return None
    coefficients = [rows[place][count] for place in range(count)]
    if any(value.denominator != 1 or (sparse and not value) for value in coefficients):
        return None
    return [int(value) for value in coefficients]

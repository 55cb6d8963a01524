"""Sizes as polynomials of batch and length, exact or refused."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache
from itertools import combinations
from math import gcd

from service.estimator.tape.programs.stepped_sizes import AnySize, SteppedSize
from service.estimator.tape.sizes import ZERO, Size, evaluate_monomials
from service.estimator.values.units import ceil_div
from service.jobs.contract import FailureKind
from service.probing.refusal import Refusal
from worker.probes.architecture.listening.listen import Extent

PROVED = Extent(batch=5, length=257)
"""Extent that each polynomial must meet without having been fitted to it."""
FEW = (Extent(batch=2, length=64), Extent(batch=3, length=128))
"""Extents that determine, with a third, a size of one monomial: their ratios differ there."""
FITTED = tuple(Extent(batch=batch, length=length) for batch in (2, 3) for length in (64, 128, 192))
"""Extents that determine the six coefficients of a size."""
EXTENTS = (*FITTED, PROVED)
STEPS = (8, 16, 32, 64, 128, 256, 512)
"""Tokens to which kernels and scans round lengths.

Memory-efficient attention rounds to 32 and the masks it reads to 8 or 16 (torch 2.13,
``_meta_registrations.py`` and ``attention.cpp``), scans to chunks of powers of two.
"""
_MOST_TERMS = 3
"""Terms of a size with steps, of which a padded tensor has one or two."""
_MOST_STEPPED = 2
"""Terms among them that have steps."""
_SPARE = 2
"""Extents beyond the terms of a size, which prove it."""
_OF_ONE = (1, 3, 5)
"""Monomials that one sequence alone is written in: those of its batch."""
_OF_TOKENS = (3, 1, 0)
"""Monomials that one length alone is written in, in the order in which they are tried."""
Column = tuple[int, ...]
"""One monomial at every extent."""


class NoPolynomial(Refusal):
    """A size that is no polynomial of those that were looked for."""


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps of a length, as a size counts them."""

    tokens: int
    begun: bool

    def count(self, length: int) -> int:
        return ceil_div(length, self.tokens) if self.begun else length // self.tokens


def fit_size(
    counts: Sequence[int], extents: tuple[Extent, ...] = EXTENTS, steps: tuple[int, ...] = ()
) -> AnySize:
    """Return the size, from its values at ``extents``.

    ``steps`` are further tokens to which a length may be rounded. Raises NoPolynomial where there
    is none with integer coefficients, or more than one.
    """
    return _fit(tuple(counts), extents, steps)


def fit_turns(
    counts: Sequence[int], extents: Sequence[Extent], steps: tuple[int, ...] = ()
) -> AnySize:
    """Return how often a loop runs at a length.

    It runs once for each step of the length, but for a number of them. Raises NoPolynomial where it
    is nothing of that.
    """
    for kind in (_Steps(1, begun=True), *_iterate_steps(steps)):
        numbers = [kind.count(extent.length) for extent in extents]
        rests = {count - number for count, number in zip(counts, numbers, strict=True)}
        if len(rests) == 1 and len(set(numbers)) > 1:
            plain = _place({0: rests.pop()})
            return SteppedSize(
                plain=plain, tokens=kind.tokens, begun=kind.begun, steps=_place({0: 1})
            )
    message = f"the turns of a loop follow no length: {counts} at {extents}"
    raise NoPolynomial(FailureKind.UNSUPPORTED, message)


@cache
def _fit(counts: Column, extents: tuple[Extent, ...], steps: tuple[int, ...]) -> AnySize:
    plain = _list_columns(extents)
    if len({extent.length for extent in extents}) == 1:
        return _fit_at_length(counts, extents)
    size = _fit_single(counts, plain)
    if size is None and len(extents) > len(plain):
        size = _fit_terms(counts, plain, list(plain))
    elif size is None:
        size = _fit_fewest(counts, plain)
    if size is not None:
        return size
    stepped = _fit_chunks(counts, extents) or _fit_stepped(counts, extents, steps)
    if stepped is None:
        message = f"a size is no polynomial of batch and length: {counts} at {extents}"
        raise NoPolynomial(FailureKind.UNSUPPORTED, message)
    return stepped


@cache
def _list_columns(extents: tuple[Extent, ...]) -> dict[int, Column]:
    """Return the monomials at the extents, by their place in a size."""
    rows = [evaluate_monomials(extent.batch, extent.length) for extent in extents]
    columns = dict(enumerate(zip(*rows, strict=True)))
    is_one = all(extent.batch == 1 for extent in extents)
    return {place: columns[place] for place in _OF_ONE} if is_one else columns


def _fit_single(counts: Column, columns: dict[int, Column]) -> Size | None:
    """Return a size of one coefficient."""
    for place, column in columns.items():
        factor, rest = divmod(counts[0], column[0])
        if not rest and all(factor * part == c for part, c in zip(column, counts, strict=True)):
            return _place({place: factor})
    return None


def _fit_terms(counts: Column, columns: dict[int, Column], places: list[int]) -> Size | None:
    """Return a size of several coefficients, met by all extents."""
    coefficients = solve([columns[place] for place in places], counts)
    return None if coefficients is None else _place(dict(zip(places, coefficients, strict=True)))


def _fit_fewest(counts: Column, columns: dict[int, Column]) -> Size | None:
    """Return a size of the fewest terms.

    None where two of as many meet all extents.
    """
    for terms in range(2, min(_MOST_TERMS, len(counts) - _SPARE) + 1):
        fits = [
            size
            for places in combinations(columns, terms)
            if (size := _fit_terms(counts, columns, list(places))) is not None
        ]
        if fits:
            return fits[0] if len(fits) == 1 else None
    return None


def _place(coefficients: dict[int, int]) -> Size:
    a, b, c, d, e, f = (coefficients.get(place, 0) for place in range(len(ZERO)))
    return (a, b, c, d, e, f)


def _fit_at_length(counts: Column, extents: tuple[Extent, ...]) -> Size:
    """Return a size at one length.

    It is that of tokens where it can be, since a head and a cache ask for the elements of a token.
    """
    columns = _list_columns(extents)
    if all(extent.batch == 1 for extent in extents):
        size = _fit_single(counts, {place: columns[place] for place in _OF_TOKENS[:2]})
    else:
        size = _fit_single(counts, {place: columns[place] for place in _OF_TOKENS})
        size = size or _fit_terms(counts, columns, list(_OF_TOKENS[1:]))
    if size is None:
        message = f"a size is no polynomial of batch: {counts} at {extents}"
        raise NoPolynomial(FailureKind.UNSUPPORTED, message)
    return size


def _fit_chunks(counts: Column, extents: tuple[Extent, ...]) -> SteppedSize | None:
    """Return a size of whole chunks, where all lengths have them.

    A chunk may have less than an element of a token.
    """
    tokens = gcd(*(extent.length for extent in extents))
    if tokens == 1:
        return None
    chunked = tuple(replace(extent, length=extent.length // tokens) for extent in extents)
    columns = _list_columns(chunked)
    size = _fit_single(counts, columns)
    if size is None and len(extents) > len(columns):
        size = _fit_terms(counts, columns, list(columns))
    if size is None:
        return None
    a, b, c, d, e, f = size
    return SteppedSize(
        plain=(a, b, 0, 0, 0, 0), tokens=tokens, begun=False, steps=(c, d, 0, 0, e, f)
    )


def _fit_stepped(
    counts: Column, extents: tuple[Extent, ...], steps: tuple[int, ...]
) -> SteppedSize | None:
    """Return a size of the fewest terms, some with steps.

    A padded row ends with its last element: two terms count its padding. None where two of as many
    terms meet all extents.
    """
    for terms in range(1, min(_MOST_TERMS, len(extents) - _SPARE) + 1):
        for number in range(1, min(_MOST_STEPPED, terms) + 1):
            fits = list(_iterate_stepped(counts, extents, steps, (number, terms - number)))
            if fits:
                return fits[0] if len(fits) == 1 else None
    return None


def _iterate_stepped(
    counts: Column, extents: tuple[Extent, ...], steps: tuple[int, ...], terms: tuple[int, int]
) -> Iterator[SteppedSize]:
    """Yield sizes of so many terms with steps and without."""
    plain = _list_columns(extents)
    with_steps, without = terms
    for kind, columns in _list_steps(extents, steps):
        for stepped in combinations(columns, with_steps):
            for places in combinations(plain, without):
                parts = [columns[place] for place in stepped] + [plain[p] for p in places]
                solved = solve(parts, counts)
                if solved is not None and all(solved):
                    yield SteppedSize(
                        plain=_place(dict(zip(places, solved[with_steps:], strict=True))),
                        tokens=kind.tokens,
                        begun=kind.begun,
                        steps=_place(dict(zip(stepped, solved, strict=False))),
                    )


@cache
def _list_steps(
    extents: tuple[Extent, ...], steps: tuple[int, ...]
) -> list[tuple[_Steps, dict[int, Column]]]:
    """Return steps with the monomials that the extents tell apart.

    Those that the extents cannot tell from fewer tokens of a step are left out.
    """
    scaled = {_scale(column) for column in _list_columns(extents).values()}
    kinds = []
    for kind in _iterate_steps(steps):
        numbers = [kind.count(extent.length) for extent in extents]
        rows = [
            (n, e.batch * n, e.length * n, e.batch * e.length * n, n * n, e.batch * n * n)
            for n, e in zip(numbers, extents, strict=True)
        ]
        columns = dict(enumerate(zip(*rows, strict=True)))
        if all(extent.batch == 1 for extent in extents):
            columns = {place: columns[place] for place in _OF_ONE}
        new = {place: c for place, c in columns.items() if any(c) and _scale(c) not in scaled}
        scaled |= {_scale(column) for column in new.values()}
        kinds.append((kind, new))
    return kinds


def _iterate_steps(steps: tuple[int, ...]) -> Iterator[_Steps]:
    for tokens in sorted({*STEPS, *steps}):
        yield _Steps(tokens, begun=True)
    for tokens in sorted({*STEPS, *steps}):
        yield _Steps(tokens, begun=False)


def _scale(column: Column) -> tuple[Fraction, ...]:
    """Return a monomial up to its factor."""
    first = next((part for part in column if part), 1)
    return tuple(Fraction(part, first) for part in column)


def solve(columns: Sequence[Column], counts: Column) -> tuple[int, ...] | None:
    """Return the integers by which columns add up to counts.

    None where there are none, or more than one such.
    """
    # Whole numbers all the way (Bareiss): thousands of columns are tried for a size with steps.
    width = len(columns)
    rows = [list(row) for row in zip(*columns, counts, strict=True)]
    before = 1
    for column in range(width):
        pivot = next((row for row in range(column, len(rows)) if rows[row][column]), None)
        if pivot is None:
            return None
        rows[column], rows[pivot] = rows[pivot], rows[column]
        top = rows[column]
        head = top[column]
        for index in range(column + 1, len(rows)):
            row = rows[index]
            factor = row[column]
            rows[index] = [(head * a - factor * b) // before for a, b in zip(row, top, strict=True)]
        before = head
    if any(row[width] for row in rows[width:]):
        return None
    solved: list[int] = []
    for place in reversed(range(width)):
        row = rows[place]
        terms = zip(row[place + 1 : width], solved, strict=True)
        part, remainder = divmod(row[width] - sum(a * b for a, b in terms), row[place])
        if remainder:
            return None
        solved.insert(0, part)
    return tuple(solved)

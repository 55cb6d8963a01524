"""Exact least squares: what several runs say about a case that lies on the same lines, or that they do not say it."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Row = Mapping[Hashable, int]
"""How often each unknown is in a number: 1 for what is there once, n for what is there for every layer."""
LayerRow = Callable[[Sequence[int], int], Row]
"""What the stretch of the layer at a place depends on, from the kinds of all layers."""
_Equation = dict[Hashable, Fraction]
_VALUE = "="
"""Where an equation keeps its right side."""
_ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """The unknowns' values that are nearest to what was measured, and the largest distance that is left, in bytes."""

    equations: Mapping[Hashable, _Equation]
    residual: float

    def at(self, row: Row) -> Fraction | None:
        """Return the number that ``row`` stands for, or None where what was measured does not decide it."""
        left = {name: Fraction(count) for name, count in row.items() if count}
        total = Fraction(0)
        for pivot, equation in self.equations.items():
            if factor := left.get(pivot, Fraction(0)):
                total += factor * equation[_VALUE]
                _subtract(left, equation, factor)
        return None if left else total


def fit(rows: Sequence[Row], values: Sequence[int]) -> Fit:
    """Return the least-squares fit of ``rows`` to ``values``; it is exact where they lie on lines."""
    equations = _solved(_normal_equations(rows, values))
    found = Fit(equations=equations, residual=0.0)
    distances = [
        abs(value - estimated) for row, value in zip(rows, values, strict=True) if (estimated := found.at(row)) is not None
    ]
    return Fit(equations=equations, residual=float(max(distances, default=Fraction(0))))


def _normal_equations(rows: Sequence[Row], values: Sequence[int]) -> list[_Equation]:
    equations: dict[Hashable, _Equation] = {}
    for row, value in zip(rows, values, strict=True):
        for name, count in row.items():
            equation = equations.setdefault(name, {_VALUE: Fraction(0)})
            equation[_VALUE] += count * value
            for other, times in row.items():
                equation[other] = equation.get(other, Fraction(0)) + count * times
    return list(equations.values())


def _solved(equations: list[_Equation]) -> dict[Hashable, _Equation]:
    """Return the equations in reduced form, by the unknown that each gives."""
    solved: dict[Hashable, _Equation] = {}
    for equation in equations:
        for pivot, known in solved.items():
            if factor := equation.get(pivot, Fraction(0)):
                _subtract(equation, known, factor, with_value=True)
        unknown = next((name for name, count in equation.items() if name != _VALUE and count), None)
        if unknown is None:
            continue
        scale = equation[unknown]
        scaled = {name: count / scale for name, count in equation.items()}
        for known in solved.values():
            if factor := known.get(unknown, Fraction(0)):
                _subtract(known, scaled, factor, with_value=True)
        solved[unknown] = scaled
    return solved


def _subtract(equation: _Equation, other: _Equation, factor: Fraction, *, with_value: bool = False) -> None:
    """Subtract ``factor`` times another equation; unknowns that cancel are dropped."""
    for name, count in other.items():
        if name == _VALUE:
            if with_value:
                equation[_VALUE] -= factor * count
            continue
        rest = equation.get(name, Fraction(0)) - factor * count
        if rest:
            equation[name] = rest
        else:
            equation.pop(name, None)


def decides(slices: Iterable[Sequence[int]], whole: Sequence[int]) -> bool:
    """Tell whether runs of ``slices`` decide the bytes of the ``whole``; each is given by the kinds of its layers."""
    taken = tuple(slices)
    if fit([counted(kinds) for kinds in taken], [0] * len(taken)).at(counted(whole)) is None:
        return False
    rows = [_anywhere(kinds, place) for kinds in taken for place in range(len(kinds))]
    drawn = fit(rows, [0] * len(rows))
    return all(drawn.at(_anywhere(whole, place)) is not None for place in range(len(whole)))


def counted(kinds: Sequence[int]) -> Row:
    """Return what a number depends on that has a share for each layer, wherever it stands."""
    return {_ONCE: 1} | {kind: kinds.count(kind) for kind in set(kinds)}


def _between_neighbours(kinds: Sequence[int], place: int) -> Row:
    """Tell its neighbours: what is sharded is gathered before its layer comes, and let go after it."""
    before = kinds[place - 1] if place else None
    after = kinds[place + 1] if place + 1 < len(kinds) else None
    return _placed(kinds, place, (before, kinds[place], after))


def _first_or_last(kinds: Sequence[int], place: int) -> Row:
    """Tell whether it is the first or the last: the first one's input is the embedding's output, which no layer keeps."""
    return _placed(kinds, place, (place == 0, kinds[place], place + 1 == len(kinds)))


def _anywhere(kinds: Sequence[int], place: int) -> Row:
    return _placed(kinds, place, (kinds[place],))


LAYER_ROWS: tuple[LayerRow, ...] = (_between_neighbours, _first_or_last, _anywhere)
"""What a layer's stretch may depend on beside the layers before and after it: the more, the more must have been run."""


def _placed(kinds: Sequence[int], place: int, own: tuple[object, ...]) -> Row:
    row: dict[Hashable, int] = {("own", *own): 1}
    for side, others in (("before", kinds[:place]), ("after", kinds[place + 1 :])):
        row |= {(side, kind): others.count(kind) for kind in set(others)}
    return row

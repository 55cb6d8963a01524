"""Exact least squares over layer counts.

Several runs predict a case that lies on the same lines, or do not determine it.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

Row = Mapping[Hashable, int]
"""Coefficients of the unknowns in a number.

1 for what is there once, n for what is there for every layer.
"""
LayerRow = Callable[[Sequence[int], int], Row]
"""Function from all layers' kinds and a position to the row of that layer's stretch."""
_Equation = dict[Hashable, Fraction]
_VALUE = "="
"""Key of an equation's right side."""
_ONCE = "once"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """A least-squares solution and its largest residual in bytes."""

    equations: Mapping[Hashable, _Equation]
    residual: float

    def evaluate(self, row: Row) -> Fraction | None:
        """Return the value of ``row``, or None where it is undetermined."""
        unresolved = {name: Fraction(count) for name, count in row.items() if count}
        total = Fraction(0)
        for pivot, equation in self.equations.items():
            if factor := unresolved.get(pivot, Fraction(0)):
                total += factor * equation[_VALUE]
                _subtract(unresolved, equation, factor)
        return None if unresolved else total


def fit(rows: Sequence[Row], values: Sequence[int]) -> Fit:
    """Return the least-squares fit of ``rows`` to ``values``.

    It is exact where they lie on lines.
    """
    equations = _solve(_build_normal_equations(rows, values))
    solution = Fit(equations=equations, residual=0.0)
    distances = [
        abs(value - estimated)
        for row, value in zip(rows, values, strict=True)
        if (estimated := solution.evaluate(row)) is not None
    ]
    return Fit(equations=equations, residual=float(max(distances, default=Fraction(0))))


def _build_normal_equations(rows: Sequence[Row], values: Sequence[int]) -> list[_Equation]:
    equations: dict[Hashable, _Equation] = {}
    for row, value in zip(rows, values, strict=True):
        for name, count in row.items():
            equation = equations.setdefault(name, {_VALUE: Fraction(0)})
            equation[_VALUE] += count * value
            for other, times in row.items():
                equation[other] = equation.get(other, Fraction(0)) + count * times
    return list(equations.values())


def _solve(equations: list[_Equation]) -> dict[Hashable, _Equation]:
    """Return the equations in reduced form, by their pivot unknowns."""
    solved: dict[Hashable, _Equation] = {}
    for equation in equations:
        for pivot, reduced in solved.items():
            if factor := equation.get(pivot, Fraction(0)):
                _subtract(equation, reduced, factor, with_value=True)
        unknown = next((name for name, count in equation.items() if name != _VALUE and count), None)
        if unknown is None:
            continue
        scale = equation[unknown]
        scaled = {name: count / scale for name, count in equation.items()}
        for reduced in solved.values():
            if factor := reduced.get(unknown, Fraction(0)):
                _subtract(reduced, scaled, factor, with_value=True)
        solved[unknown] = scaled
    return solved


def _subtract(
    equation: _Equation, other: _Equation, factor: Fraction, *, with_value: bool = False
) -> None:
    """Subtract ``factor`` times another equation; unknowns that cancel are dropped."""
    for name, count in other.items():
        if name == _VALUE:
            if with_value:
                equation[_VALUE] -= factor * count
            continue
        remainder = equation.get(name, Fraction(0)) - factor * count
        if remainder:
            equation[name] = remainder
        else:
            equation.pop(name, None)


def is_determined(slices: Iterable[Sequence[int]], target: Sequence[int]) -> bool:
    """Return whether runs of ``slices`` determine the bytes of ``target``.

    Each is given by the kinds of its layers.
    """
    kinds_by_slice = tuple(slices)
    if (
        fit([count_kinds(kinds) for kinds in kinds_by_slice], [0] * len(kinds_by_slice)).evaluate(
            count_kinds(target)
        )
        is None
    ):
        return False
    rows = [
        _build_position_row(kinds, place) for kinds in kinds_by_slice for place in range(len(kinds))
    ]
    layer_fit = fit(rows, [0] * len(rows))
    return all(
        layer_fit.evaluate(_build_position_row(target, place)) is not None
        for place in range(len(target))
    )


def count_kinds(kinds: Sequence[int]) -> Row:
    """Return the row of a number with a share for each layer.

    The share does not depend on the layer's position.
    """
    return {_ONCE: 1} | {kind: kinds.count(kind) for kind in set(kinds)}


def _build_neighbour_row(kinds: Sequence[int], place: int) -> Row:
    """Build the row of a layer that depends on its neighbours.

    What is sharded is gathered before its layer comes, and freed after it.
    """
    before = kinds[place - 1] if place else None
    after = kinds[place + 1] if place + 1 < len(kinds) else None
    return _build_row(kinds, place, (before, kinds[place], after))


def _build_end_row(kinds: Sequence[int], place: int) -> Row:
    """Build the row of a layer that depends on the stack's ends.

    The first layer's input is the embedding's output, which no layer keeps.
    """
    return _build_row(kinds, place, (place == 0, kinds[place], place + 1 == len(kinds)))


def _build_position_row(kinds: Sequence[int], place: int) -> Row:
    return _build_row(kinds, place, (kinds[place],))


LAYER_ROWS: tuple[LayerRow, ...] = (_build_neighbour_row, _build_end_row, _build_position_row)
"""Row builders for a layer's stretch beside the layers before and after it.

The more it depends on, the more must have been run.
"""


def _build_row(kinds: Sequence[int], place: int, layer_key: tuple[object, ...]) -> Row:
    row: dict[Hashable, int] = {("own", *layer_key): 1}
    for side, side_kinds in (("before", kinds[:place]), ("after", kinds[place + 1 :])):
        row |= {(side, kind): side_kinds.count(kind) for kind in set(side_kinds)}
    return row

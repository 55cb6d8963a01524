"""The simplest curve that explains the residuals of one part: nothing, an intercept, slopes along tokens, layers, and both."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, sqrt

from service.calibration.evidence import MeasuredPoint
from service.calibration.shrinkage import Mean, shrunk

Axis = Callable[[MeasuredPoint], float]


def _tokens(point: MeasuredPoint) -> float:
    return float(point.num_tokens)


def _layers(point: MeasuredPoint) -> float:
    return float(point.num_layers)


def _both(point: MeasuredPoint) -> float:
    return float(point.num_tokens * point.num_layers)


_AXES: tuple[Axis, ...] = (_tokens, _both, _layers)
"""Along what memory grows; what a layer keeps of every token comes before what a layer has whatever it is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A residual at a point, and the residual below which it means nothing."""

    point: MeasuredPoint
    residual: float
    doubt: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Residuals as ``fixed + per_token * T + per_layer * L + per_layer_token * T * L``, and what of them it leaves."""

    fixed: float = 0.0
    per_token: float = 0.0
    per_layer: float = 0.0
    per_layer_token: float = 0.0

    def at(self, point: MeasuredPoint) -> float:
        """Return the correction at a point."""
        tokens, layers = point.num_tokens, point.num_layers
        return self.fixed + self.per_token * tokens + self.per_layer * layers + self.per_layer_token * tokens * layers


def fit(samples: Sequence[Sample], *, between: float = 0.0) -> Curve:
    """Return the curve of at least one sample, shrunk towards nothing; ``between`` is the variance of intercepts elsewhere.

    A slope is added only while it leaves less than the simpler curve, and none where the simpler one leaves nothing.
    """
    best = Curve()
    for num_axes in range(len(_AXES) + 1):
        if num_axes and all(abs(one.residual - best.at(one.point)) <= one.doubt for one in samples):
            return best
        candidate = _fit(samples, _AXES[:num_axes], between)
        if _left(samples, candidate) < _left(samples, best):
            best = candidate
    return best


def mean_of(samples: Sequence[Sample]) -> Mean:
    """Return the mean of the residuals, each counted by what it is known to; its variance is at least what they scatter by."""
    weights = [1 / sample.doubt**2 for sample in samples]
    total = sum(weights)
    middle = sum(w * one.residual for w, one in zip(weights, samples, strict=True)) / total
    scatter = _scatter([one.residual - middle for one in samples], weights, free=len(samples) - 1)
    return Mean(value=middle, variance=scatter / total, count=len(samples))


def _left(samples: Sequence[Sample], curve: Curve) -> float:
    """Return the root mean square of what a curve leaves, in doubts."""
    return sqrt(sum(((one.residual - curve.at(one.point)) / one.doubt) ** 2 for one in samples) / len(samples))


def _fit(samples: Sequence[Sample], axes: Sequence[Axis], between: float) -> Curve:
    """Return intercept and slopes, each shrunk by itself with the scatter that all of them together leave.

    Every axis is taken at right angles to those before it, so that none takes back what another has explained.
    """
    weights = [1 / sample.doubt**2 for sample in samples]
    columns = _orthogonal([[axis(sample.point) for sample in samples] for axis in axes], weights)
    left = [sample.residual for sample in samples]
    slopes: list[Mean] = []
    for column in columns:
        length = _product(weights, column.values, column.values)
        slope = Mean(value=_product(weights, column.values, left) / length, variance=1 / length)
        slopes.append(slope)
        left = [y - slope.value * x for y, x in zip(left, column.values, strict=True)]
    scatter = _scatter(left, weights, free=len(samples) - len(columns))
    total = [0.0] * (len(_AXES) + 1)
    for column, mean in zip(columns, slopes, strict=True):
        is_constant = column is columns[0]
        known = Mean(value=mean.value, variance=mean.variance * scatter)
        kept = shrunk(known, between=between if is_constant else 0.0)
        for index, factor in column.of.items():
            total[index] += kept * factor
    return Curve(fixed=total[0], per_token=total[1], per_layer_token=total[2], per_layer=total[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """An axis at right angles to those before it: its values, and of which axes (0 is the constant) it is made."""

    values: list[float]
    of: dict[int, float]


def _orthogonal(axes: Sequence[list[float]], weights: Sequence[float]) -> list[_Column]:
    """Return a constant and the axes at right angles to it and to each other; those that say nothing new are left out."""
    made = [_Column(values=[1.0] * len(weights), of={0: 1.0})]
    for number, axis in enumerate(axes, start=1):
        column = _Column(values=list(axis), of={number: 1.0})
        for before in made:
            column = _without(column, before, weights)
        scale = max(abs(value) for value in axis)
        if not all(isclose(value, 0.0, abs_tol=scale * 1e-9) for value in column.values):
            made.append(column)
    return made


def _without(column: _Column, before: _Column, weights: Sequence[float]) -> _Column:
    factor = _product(weights, before.values, column.values) / _product(weights, before.values, before.values)
    of = dict(column.of)
    for index, part in before.of.items():
        of[index] = of.get(index, 0.0) - factor * part
    return _Column(values=[y - factor * x for x, y in zip(before.values, column.values, strict=True)], of=of)


def _product(weights: Sequence[float], one: Sequence[float], other: Sequence[float]) -> float:
    return sum(w * x * y for w, x, y in zip(weights, one, other, strict=True))


def _scatter(left: Sequence[float], weights: Sequence[float], *, free: int) -> float:
    """Return by how much variances grow where values scatter more than they should (Birge's ratio), at least 1."""
    return max(1.0, _product(weights, left, left) / free) if free > 0 else 1.0

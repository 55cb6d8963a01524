"""Least-squares fit of the simplest curve that explains residuals.

A curve has an intercept, then slopes along tokens, layers and their product.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isclose, sqrt

from service.calibration.evidence import MeasuredPoint
from service.calibration.shrinkage import Mean, shrink

Axis = Callable[[MeasuredPoint], float]


def _count_tokens(point: MeasuredPoint) -> float:
    return float(point.num_tokens)


def _count_layers(point: MeasuredPoint) -> float:
    return float(point.num_layers)


def _count_layer_tokens(point: MeasuredPoint) -> float:
    return float(point.num_tokens * point.num_layers)


_AXES: tuple[Axis, ...] = (_count_tokens, _count_layer_tokens, _count_layers)
"""Quantities along which memory grows.

What a layer keeps of every token comes before what a layer has whatever it is given.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A residual at a point with its uncertainty.

    A residual below ``doubt`` means nothing.
    """

    point: MeasuredPoint
    residual: float
    doubt: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """Residuals as a linear function of tokens and layers.

    ``fixed + per_token * T + per_layer * L + per_layer_token * T * L``.
    """

    fixed: float = 0.0
    per_token: float = 0.0
    per_layer: float = 0.0
    per_layer_token: float = 0.0

    def at(self, point: MeasuredPoint) -> float:
        """Return the correction at a point."""
        tokens, layers = point.num_tokens, point.num_layers
        return (
            self.fixed
            + self.per_token * tokens
            + self.per_layer * layers
            + self.per_layer_token * tokens * layers
        )


def fit(samples: Sequence[Sample], *, between: float = 0.0) -> Curve:
    """Fit the simplest sufficient curve to at least one sample.

    It is shrunk towards nothing; ``between`` is the variance of intercepts elsewhere.

    A slope is added only while it leaves less than the simpler curve, and none where the simpler
    one leaves nothing.
    """
    best = Curve()
    for num_axes in range(len(_AXES) + 1):
        if num_axes and all(
            abs(sample.residual - best.at(sample.point)) <= sample.doubt for sample in samples
        ):
            return best
        candidate = _fit_axes(samples, _AXES[:num_axes], between)
        if _compute_misfit(samples, candidate) < _compute_misfit(samples, best):
            best = candidate
    return best


def compute_mean(samples: Sequence[Sample]) -> Mean:
    """Return the weighted mean of residuals and its variance.

    Each counts by what it is known to; the variance is at least what they scatter by.
    """
    weights = [1 / sample.doubt**2 for sample in samples]
    total = sum(weights)
    middle = sum(w * item.residual for w, item in zip(weights, samples, strict=True)) / total
    scatter = _compute_scatter(
        [item.residual - middle for item in samples], weights, free=len(samples) - 1
    )
    return Mean(value=middle, variance=scatter / total, count=len(samples))


def _compute_misfit(samples: Sequence[Sample], curve: Curve) -> float:
    """Return the root mean square of the remaining residuals, in doubts."""
    return sqrt(
        sum(((sample.residual - curve.at(sample.point)) / sample.doubt) ** 2 for sample in samples)
        / len(samples),
    )


def _fit_axes(samples: Sequence[Sample], axes: Sequence[Axis], between: float) -> Curve:
    """Fit an intercept and slopes, each shrunk by itself.

    Shrinkage uses the scatter that all of them together leave.

    Every axis is taken at right angles to those before it, so that none takes back what another has
    explained.
    """
    weights = [1 / sample.doubt**2 for sample in samples]
    columns = _orthogonalize([[axis(sample.point) for sample in samples] for axis in axes], weights)
    residuals = [sample.residual for sample in samples]
    slopes: list[Mean] = []
    for column in columns:
        length = _compute_product(weights, column.values, column.values)
        slope = Mean(
            value=_compute_product(weights, column.values, residuals) / length, variance=1 / length
        )
        slopes.append(slope)
        residuals = [y - slope.value * x for y, x in zip(residuals, column.values, strict=True)]
    scatter = _compute_scatter(residuals, weights, free=len(samples) - len(columns))
    total = [0.0] * (len(_AXES) + 1)
    for column, mean in zip(columns, slopes, strict=True):
        is_constant = column is columns[0]
        uncertain_slope = Mean(value=mean.value, variance=mean.variance * scatter)
        shrunk_slope = shrink(uncertain_slope, between=between if is_constant else 0.0)
        for index, factor in column.axis_factors.items():
            total[index] += shrunk_slope * factor
    return Curve(fixed=total[0], per_token=total[1], per_layer_token=total[2], per_layer=total[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class _Column:
    """An axis orthogonal to those before it.

    It has its values, and the factors of the axes (0 is the constant) that it is made of.
    """

    values: list[float]
    axis_factors: dict[int, float]


def _orthogonalize(axes: Sequence[list[float]], weights: Sequence[float]) -> list[_Column]:
    """Return a constant and the axes, orthogonal to it and each other.

    Axes that say nothing new are left out.
    """
    columns = [_Column(values=[1.0] * len(weights), axis_factors={0: 1.0})]
    for number, axis in enumerate(axes, start=1):
        column = _Column(values=list(axis), axis_factors={number: 1.0})
        for previous in columns:
            column = _project_out(column, previous, weights)
        scale = max(abs(value) for value in axis)
        if not all(isclose(value, 0.0, abs_tol=scale * 1e-9) for value in column.values):
            columns.append(column)
    return columns


def _project_out(column: _Column, previous: _Column, weights: Sequence[float]) -> _Column:
    factor = _compute_product(weights, previous.values, column.values) / _compute_product(
        weights, previous.values, previous.values
    )
    axis_factors = dict(column.axis_factors)
    for index, part in previous.axis_factors.items():
        axis_factors[index] = axis_factors.get(index, 0.0) - factor * part
    return _Column(
        values=[y - factor * x for x, y in zip(previous.values, column.values, strict=True)],
        axis_factors=axis_factors,
    )


def _compute_product(
    weights: Sequence[float], left: Sequence[float], right: Sequence[float]
) -> float:
    return sum(w * x * y for w, x, y in zip(weights, left, right, strict=True))


def _compute_scatter(residuals: Sequence[float], weights: Sequence[float], *, free: int) -> float:
    """Return the variance inflation of scattered values (Birge's ratio).

    It is at least 1.
    """
    return max(1.0, _compute_product(weights, residuals, residuals) / free) if free > 0 else 1.0

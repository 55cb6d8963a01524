"""Speeds of a machine, learnt from measured times.

One number corrects every launch, another all kernels. A run is explained by the side of which it
asks less: hosts differ widely, GPUs of one kind by their clocks.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, log, sqrt
from statistics import median

from service.estimator.speed.rates import Rates
from service.estimator.values.corrections import SHIPPED_SPEEDS, SpeedRatios
from service.estimator.values.result import Bound

WIDEST = 8.0
"""Largest ratio that is believed, and its inverse the smallest."""
SPREADS = {Bound.HOST: 0.4, Bound.GPU: 0.1}
"""Logarithms by which machines differ: the hosts of two rented H100 launched 1.5 times as fast as
each other, and power limits change a GPU's clock by a tenth.
"""
_BISECTIONS = 30
_CLOSE = 1e-3
_ROUNDS = 3
"""Passes over all runs: a host that is learnt anew decides other runs than before."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """Seconds that a run took, and those predicted at other speeds."""

    seconds: float
    predict: Callable[[SpeedRatios], float]


def correct_rates(rates: Rates, speeds: SpeedRatios) -> Rates:
    """Return the rates of one machine."""
    return replace(
        rates,
        launch_s=rates.launch_s * speeds.host,
        view_s=rates.view_s * speeds.host,
        products=rates.products / speeds.gpu,
        attention_forward=rates.attention_forward / speeds.gpu,
        attention_backward=rates.attention_backward / speeds.gpu,
        streaming=rates.streaming / speeds.gpu,
        memory=rates.memory / speeds.gpu,
        update=rates.update / speeds.gpu,
        update_16_bit=rates.update_16_bit / speeds.gpu,
    )


def learn_speeds(runs: Sequence[MeasuredTime]) -> SpeedRatios:
    """Return the ratios at which the runs take their seconds.

    Where runs differ it is the median.
    """
    speeds = SHIPPED_SPEEDS
    for _ in range(_ROUNDS):
        ratios: dict[Bound, list[float]] = {side: [] for side in Bound}
        for run in runs:
            side, ratio = _explain(run, speeds)
            ratios[side].append(ratio)
        speeds = SpeedRatios(
            host=median(ratios[Bound.HOST] or [speeds.host]),
            gpu=median(ratios[Bound.GPU] or [speeds.gpu]),
        )
    return speeds


def _explain(run: MeasuredTime, speeds: SpeedRatios) -> tuple[Bound, float]:
    """Return the side that explains a run with less, and its ratio."""
    ratios = {side: _solve_ratio(run, side, speeds) for side in Bound}
    side = min(Bound, key=lambda one: _measure_doubt(run, one, ratios[one], speeds))
    return side, ratios[side]


def _measure_doubt(run: MeasuredTime, side: Bound, ratio: float, speeds: SpeedRatios) -> float:
    """Return how unusual a ratio is.

    It is infinite where no ratio explains the run.
    """
    predicted = run.predict(_set_ratio(speeds, side, ratio))
    if abs(predicted / run.seconds - 1) > _CLOSE:
        return inf
    return abs(log(ratio)) / SPREADS[side]


def _solve_ratio(run: MeasuredTime, side: Bound, speeds: SpeedRatios) -> float:
    """Return one side's ratio at which a run takes its seconds.

    No time falls with a ratio.
    """
    low, high = 1 / WIDEST, WIDEST
    for _ in range(_BISECTIONS):
        middle = sqrt(low * high)
        if run.predict(_set_ratio(speeds, side, middle)) < run.seconds:
            low = middle
        else:
            high = middle
    return high


def _set_ratio(speeds: SpeedRatios, side: Bound, ratio: float) -> SpeedRatios:
    if side is Bound.HOST:
        return replace(speeds, host=ratio)
    return replace(speeds, gpu=ratio)

"""Speeds of a machine, as measured times tell them.

One number corrects every launch, another all kernels. A run is explained by the side of which it
asks less: hosts differ widely, GPUs of one kind by their clocks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import exp, log
from types import MappingProxyType

from service.estimator.speed.rates import Rates, get_rates
from service.estimator.values.corrections import SHIPPED_SPEEDS, SpeedRatios
from service.estimator.values.result import Bound

WIDEST = 8.0
"""Largest ratio that is believed, and its inverse the smallest."""
SPREADS: Mapping[Bound, float] = MappingProxyType({Bound.HOST: 0.4, Bound.GPU: 0.1})
"""Logarithms by which machines differ: the hosts of two rented H100 launched 1.5 times as fast as
each other, and power limits change a GPU's clock by a tenth.
"""
_BISECTIONS = 14
_CLOSE = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredTime:
    """Seconds that a run took, and those predicted at other speeds."""

    seconds: float
    predict: Callable[[SpeedRatios], float]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpeedReading:
    """The side that explains a measured time, and its ratio."""

    side: Bound
    ratio: float

    @property
    def speeds(self) -> SpeedRatios:
        """The machine at which the run takes its seconds."""
        return _set_ratio(self.side, self.ratio)


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


def find_learnt_rates(gpu: str, speeds: SpeedRatios) -> Rates | None:
    """Return a GPU's rates at learnt speeds; None for the shipped ones."""
    return None if speeds == SHIPPED_SPEEDS else correct_rates(get_rates(gpu), speeds)


def read_speed(run: MeasuredTime) -> SpeedReading | None:
    """Return what a run tells of its machine.

    None where neither side alone explains its time.
    """
    readings = [
        SpeedReading(side=side, ratio=ratio)
        for side in Bound
        if (ratio := _solve_ratio(run, side)) is not None
    ]
    return min(
        readings, key=lambda reading: abs(log(reading.ratio)) / SPREADS[reading.side], default=None
    )


def _solve_ratio(run: MeasuredTime, side: Bound) -> float | None:
    """Return one side's ratio at which a run takes its seconds.

    None where there is no such ratio. No time falls with a ratio.
    """

    def miss(logarithm: float) -> float:
        return log(run.predict(_set_ratio(side, exp(logarithm))) / run.seconds)

    low, high = -log(WIDEST), log(WIDEST)
    # Where this side alone decides, its ratio is that of the times.
    tried = min(max(-miss(0.0), low), high)
    for _ in range(_BISECTIONS):
        error = miss(tried)
        if abs(error) <= _CLOSE:
            return exp(tried)
        low, high = (tried, high) if error < 0 else (low, tried)
        tried = (low + high) / 2
    return None


def _set_ratio(side: Bound, ratio: float) -> SpeedRatios:
    return SpeedRatios(host=ratio) if side is Bound.HOST else SpeedRatios(gpu=ratio)

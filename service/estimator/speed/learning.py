"""Speeds of a machine, as measured times tell them.

One number corrects every launch, another all kernels. A run is explained by the side of which it
asks less: hosts differ widely, GPUs of one kind by their clocks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from statistics import fmean
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
_ROUNDS = 4
"""Each side's ratio in turn, at what the other's is by then."""
_NUDGE = 1.1
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


def read_speeds(runs: Sequence[MeasuredTime]) -> dict[Bound, float]:
    """Return both sides' ratios, by runs on one machine together.

    The run with most of the host in it tells of the host, any other of the side that moves its time
    more, at what the rest tell of the other side; runs that tell of one side are averaged. One
    alone is explained by the side of which it asks less.
    """
    if len(runs) == 1:
        reading = read_speed(runs[0])
        return {} if reading is None else {reading.side: reading.ratio}
    ratios: dict[Bound, float] = {}
    for _ in range(_ROUNDS):
        for side in Bound:
            speeds = _combine(ratios)
            telling = _list_telling_runs(runs, side, speeds)
            solved = (_solve_ratio(run, side, speeds) for run in telling)
            logarithms = [log(ratio) for ratio in solved if ratio is not None]
            ratios.pop(side, None)
            if logarithms:
                ratios[side] = exp(fmean(logarithms))
    return ratios


def _list_telling_runs(
    runs: Sequence[MeasuredTime], side: Bound, speeds: SpeedRatios
) -> list[MeasuredTime]:
    growths = [_measure_growths(run, speeds) for run in runs]
    largest = max(growths, key=lambda growth: growth[Bound.HOST])
    return [
        run
        for run, growth in zip(runs, growths, strict=True)
        if side is (Bound.HOST if growth is largest else max(growth, key=lambda name: growth[name]))
    ]


def _measure_growths(run: MeasuredTime, speeds: SpeedRatios) -> dict[Bound, float]:
    """Return by how much a run's time grows with each side's ratio."""
    base = run.predict(speeds)
    return {
        side: run.predict(_set_ratio(side, _NUDGE * getattr(speeds, side.value), speeds)) / base
        for side in Bound
    }


def _combine(ratios: Mapping[Bound, float]) -> SpeedRatios:
    return SpeedRatios(**{side.value: ratio for side, ratio in ratios.items()})


def _solve_ratio(
    run: MeasuredTime, side: Bound, speeds: SpeedRatios = SHIPPED_SPEEDS
) -> float | None:
    """Return one side's ratio at which a run takes its seconds.

    The other's is as in ``speeds``. None where there is no such ratio. No time falls with a ratio.
    """

    def miss(logarithm: float) -> float:
        return log(run.predict(_set_ratio(side, exp(logarithm), speeds)) / run.seconds)

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


def _set_ratio(side: Bound, ratio: float, speeds: SpeedRatios = SHIPPED_SPEEDS) -> SpeedRatios:
    return replace(speeds, host=ratio) if side is Bound.HOST else replace(speeds, gpu=ratio)

"""The fit of a GPU's physical rates to what sweeps measured.

What is fitted are the host's seconds for a launch and the shares of the peak rates that kernels
reach, the same for every row of a GPU; nothing knows a case. What a model's own rows do not tell is
seen by leaving them out (``leave_models_out``).
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log
from statistics import fmean

from service.estimator.speed.rates import Rates, get_rates
from tests.accuracy.times.rows import TimedRow
from tests.accuracy.times.scoring import RatesOf, TimedScore, score_rows

SHARED = ("memory", "attention_forward", "attention_backward", "update_16_bit", "ungraphed")
"""Shares that GPUs of one chip have in common."""
_VIEW = " view"
_STEPS = (0.16, 0.08, 0.04)
"""Relative steps of the descent, the finest last."""
_ENOUGH = 1e-5

Parameters = Mapping[str, float]


def fit_rates(rows: Sequence[TimedRow]) -> Parameters:
    """Return the parameters with the least mean absolute logarithm of predicted over measured.

    One coordinate after another, from the shipped rates on.
    """
    best: Parameters = read_shipped(rows)
    loss = _measure_loss(rows, best)
    for step in _STEPS:
        for name in best:
            for factor in (1 + step, 1 / (1 + step)):
                best, loss = _descend(rows, best, loss, name, factor)
    return best


def _descend(
    rows: Sequence[TimedRow], best: Parameters, loss: float, name: str, factor: float
) -> tuple[Parameters, float]:
    while True:
        tried = {**best, name: best[name] * factor}
        next_loss = _measure_loss(rows, tried)
        if next_loss >= loss - _ENOUGH:
            return best, loss
        best, loss = tried, next_loss


def read_shipped(rows: Sequence[TimedRow]) -> dict[str, float]:
    """Return the parameters of the shipped rates."""
    hosts = {row.device.name: get_rates(row.device.name) for row in rows}
    rates = get_rates(rows[0].device.name)
    shares = {name: float(getattr(rates, name)) for name in SHARED}
    launches = {name: host.launch_s for name, host in hosts.items()}
    views = {name + _VIEW: host.view_s / host.launch_s for name, host in hosts.items()}
    return {**launches, **views, **shares}


def choose_rates(parameters: Parameters) -> RatesOf:
    """Return the rates of each row's GPU at some parameters."""

    def choose(row: TimedRow) -> Rates:
        launch_s = parameters[row.device.name]
        return replace(
            get_rates(row.device.name),
            launch_s=launch_s,
            view_s=launch_s * parameters[row.device.name + _VIEW],
            memory=parameters["memory"],
            attention_forward=parameters["attention_forward"],
            attention_backward=parameters["attention_backward"],
            update_16_bit=parameters["update_16_bit"],
            ungraphed=parameters["ungraphed"],
        )

    return choose


def leave_models_out(rows: Sequence[TimedRow]) -> tuple[TimedScore, ...]:
    """Return the scores of each model at rates fitted to all other models."""
    scores: list[TimedScore] = []
    for family in dict.fromkeys(row.family for row in rows):
        others = [row for row in rows if row.family != family]
        own = [row for row in rows if row.family == family]
        scores += score_rows(own, choose_rates(fit_rates(others)))
    return tuple(scores)


def _measure_loss(rows: Sequence[TimedRow], parameters: Parameters) -> float:
    scores = score_rows(rows, choose_rates(parameters))
    return fmean(abs(log(score.predicted_s / score.measured_s)) for score in scores)

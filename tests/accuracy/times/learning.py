"""Times of other questions, before and after one measurement of their machine.

Each recorded run in turn is the one that was measured; what it tells goes the way of a calibration.
A prior that is wrong on purpose stands for a host that nobody recorded.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import log, sqrt
from statistics import fmean

from service.calibration.apply import ONLY_PART, get_point
from service.calibration.derive import calibrate
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import build_calibration_key
from service.calibration.machines import build_machines, combine_speeds
from service.calibration.pool import Group, Member
from service.estimator.speed.learning import correct_rates, read_speed
from service.estimator.speed.rates import Rates, get_rates
from service.estimator.values.corrections import SHIPPED_SPEEDS, SpeedRatios
from service.estimator.values.layout import Layout
from service.estimator.values.result import Bound
from tests.accuracy.times.rows import TimedRow, read_timed_rows
from tests.accuracy.times.scoring import TimedScore, TimeErrors, score_rows, summarise_errors

SAME, OTHER = "the same model and settings", "another model"
RIGHT, SLOW, FAST = 1.0, 1.5, 1 / 1.5
"""Hosts by the seconds of their launches over those that the prior believes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """Errors of all other runs around one that was measured, over every choice of it."""

    host: float
    kind: str
    before: TimeErrors
    after: TimeErrors


def list_whole_rows() -> tuple[TimedRow, ...]:
    """Return the runs at full depth."""
    return tuple(row for row in read_timed_rows() if " layers " not in row.name)


def measure_noise() -> dict[Bound, float]:
    """Return how far single runs are from the rates of their machine, as standard deviations."""
    readings = [read_speed(row.measure(None)) for row in list_whole_rows()]
    return {
        side: sqrt(
            fmean(
                log(reading.ratio) ** 2
                for reading in readings
                if reading is not None and reading.side is side
            )
        )
        for side in Bound
    }


@cache
def score_lesson(host: float, kind: str) -> Lesson:
    """Return the errors before and after, where the host is so much slower than is believed."""
    learnt, believed = _learn_rows(host, kind), _score_believed(host)
    before: list[TimedScore] = []
    after: list[TimedScore] = []
    for first, other in _iter_pairs(kind):
        before += believed[id(other)]
        rates = correct_rates(_believe(host, other), learnt[id(first)])
        after += score_rows([other], _take(rates))
    return Lesson(
        host=host, kind=kind, before=summarise_errors(before), after=summarise_errors(after)
    )


def _take(rates: Rates) -> Callable[[TimedRow], Rates]:
    return lambda _: rates


@cache
def _learn_rows(host: float, kind: str) -> dict[int, SpeedRatios]:
    """Return what each row's measurement leaves behind, by the identity of the row."""
    return {id(row): _learn(row, _believe(host, row), kind) for row in list_whole_rows()}


@cache
def _score_believed(host: float) -> dict[int, tuple[TimedScore, ...]]:
    """Return each row's scores before anything was measured, by the identity of the row."""
    return {
        id(row): score_rows([row], lambda row: _believe(host, row)) for row in list_whole_rows()
    }


def _believe(host: float, row: TimedRow) -> Rates:
    shipped = get_rates(row.device.name)
    return correct_rates(shipped, SpeedRatios(host=1 / host))


def _iter_pairs(kind: str) -> Iterator[tuple[TimedRow, TimedRow]]:
    rows = list_whole_rows()
    keys = {id(row): build_calibration_key(row.model, row.workload, Layout()) for row in rows}
    for first in rows:
        for other in rows:
            if other is first or other.file != first.file:
                continue
            same = keys[id(first)] == keys[id(other)]
            if same if kind == SAME else first.family != other.family:
                yield first, other


def _learn(row: TimedRow, prior: Rates, kind: str) -> SpeedRatios:
    """Return the speeds that one measurement leaves behind.

    Its own key is asked besides its machine, as of every question (``lookup.py``).
    """
    reading = read_speed(row.measure(prior))
    if reading is None:
        return SHIPPED_SPEEDS
    evidence = Evidence(
        measurement=row.name,
        point=get_point(row.model, row.workload, Layout()),
        measured={ONLY_PART: 1},
        predicted={ONLY_PART: 1},
        quantity=Quantity.STEP_TIME,
        speeds={reading.side.value: log(reading.ratio)},
    )
    calibration = calibrate([evidence])
    assert calibration is not None
    group = Group(quantity=Quantity.STEP_TIME, kind="step", environment=row.file)
    machines = build_machines([Member(key=row.name, group=group, calibration=calibration)])
    (machine,) = machines.values()
    return combine_speeds(machine, [calibration.speeds] if kind == SAME else ())

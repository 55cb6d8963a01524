"""Times of other questions, before and after one measurement of their machine.

Each recorded run in turn is the one that was measured; what it tells goes the way of a calibration.
A prior that is wrong on purpose stands for a host that nobody recorded. Where a probe would plan a
run of few tokens (``service/probing/pace.py``), another recorded one stands for it: of the same
settings if there is one, else of the same model, the fewest tokens first, and never the one that is
asked about.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from math import log, sqrt
from statistics import fmean
from typing import NamedTuple

from service.calibration.apply import ONLY_PART, get_point
from service.calibration.derive import calibrate
from service.calibration.evidence import Evidence, Quantity
from service.calibration.key import build_calibration_key
from service.calibration.machines import build_machines, combine_speeds
from service.calibration.pool import Group, Member
from service.estimator.speed.learning import correct_rates, read_speed, read_speeds
from service.estimator.speed.rates import Rates, get_rates
from service.estimator.values.corrections import SHIPPED_SPEEDS, SpeedRatios
from service.estimator.values.layout import Layout
from service.estimator.values.result import Bound
from service.probing.pace import MIN_HOST_SHARE, TELLING_SHARE, measure_host_share
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
    alone: TimeErrors
    """After the measured run's own time."""
    after: TimeErrors
    """After that and the run of few tokens beside it."""


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
    believed = _score_believed(host)
    before: list[TimedScore] = []
    alone: list[TimedScore] = []
    after: list[TimedScore] = []
    for first, other in _iter_pairs(kind):
        before += believed[id(other)]
        alone += _score_learnt(_Rows(first, None), other, host, kind)
        after += _score_learnt(_Rows(first, _find_pace(first, other)), other, host, kind)
    return Lesson(
        host=host,
        kind=kind,
        before=summarise_errors(before),
        alone=summarise_errors(alone),
        after=summarise_errors(after),
    )


def _score_learnt(rows: "_Rows", asked: TimedRow, host: float, kind: str) -> tuple[TimedScore, ...]:
    rates = correct_rates(_believe(host, asked), _learn(rows, host, kind))
    return score_rows([asked], _take(rates))


def _find_pace(first: TimedRow, asked: TimedRow) -> TimedRow | None:
    """Return the run that tells of the host beside one that tells little."""
    own = _get_host_share(first)
    if own >= TELLING_SHARE:
        return None
    like = [
        row
        for row in list_whole_rows()
        if row not in {first, asked}
        and row.file == first.file
        and row.family == first.family
        and row.seconds.keys() == first.seconds.keys()
        and own < _get_host_share(row) >= MIN_HOST_SHARE
    ]
    return min(
        like,
        key=lambda row: (
            _get_key(row) != _get_key(first),
            get_point(row.model, row.workload, Layout()).num_tokens,
        ),
        default=None,
    )


@cache
def _get_host_share(row: TimedRow) -> float:
    return measure_host_share(row.measure(None).predict)


@cache
def _get_key(row: TimedRow) -> str:
    return build_calibration_key(row.model, row.workload, Layout())


def _take(rates: Rates) -> Callable[[TimedRow], Rates]:
    return lambda _: rates


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
    for first in rows:
        for other in rows:
            if other is first or other.file != first.file:
                continue
            same = _get_key(first) == _get_key(other)
            if same if kind == SAME else first.family != other.family:
                yield first, other


class _Rows(NamedTuple):
    """A measured run, and the one of few tokens beside it."""

    first: TimedRow
    pace: TimedRow | None


@cache
def _learn(rows: _Rows, host: float, kind: str) -> SpeedRatios:
    """Return the speeds that one measurement leaves behind.

    Its own key is asked besides its machine, as of every question (``lookup.py``).
    """
    row = rows.first
    runs = [part.measure(_believe(host, part)) for part in rows if part is not None]
    speeds = {side.value: log(ratio) for side, ratio in read_speeds(runs).items()}
    if not speeds:
        return SHIPPED_SPEEDS
    evidence = Evidence(
        measurement=row.name,
        point=get_point(row.model, row.workload, Layout()),
        measured={ONLY_PART: 1},
        predicted={ONLY_PART: 1},
        quantity=Quantity.STEP_TIME,
        speeds=speeds,
    )
    calibration = calibrate([evidence])
    assert calibration is not None
    group = Group(quantity=Quantity.STEP_TIME, kind="step", environment=row.file)
    machines = build_machines([Member(key=row.name, group=group, calibration=calibration)])
    (machine,) = machines.values()
    return combine_speeds(machine, [calibration.speeds] if kind == SAME else ())

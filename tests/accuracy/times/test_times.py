"""Floors of the times that GPUs took."""

import pytest

from tests.accuracy.times.fitting import choose_rates, read_shipped
from tests.accuracy.times.rows import read_timed_rows
from tests.accuracy.times.scoring import score_rows, summarise_errors

FLOORS = {"all": (0.07, 0.245), "sweep_h100": (0.072, 0.235), "sweep_h200": (0.095, 0.285)}
"""Median and 90th percentile of the error: what is reached now, rounded up."""
BIAS = 0.035
NUM_TIMES = 121


@pytest.mark.parametrize("file", FLOORS)
def test_times_stay_below_their_floor(file: str) -> None:
    """Steps, prefills and decode steps of every sweep, each alike."""
    scores = [s for s in score_rows(read_timed_rows()) if file in {"all", s.file}]
    median, p90 = FLOORS[file]

    errors = summarise_errors(scores)

    assert errors.median <= median
    assert errors.p90 <= p90


def test_times_are_neither_too_long_nor_too_short() -> None:
    """Over all of them the signed errors cancel, and no row is refused."""
    errors = summarise_errors(score_rows(read_timed_rows()))

    assert errors.num == NUM_TIMES
    assert abs(errors.bias) <= BIAS


def test_the_fit_begins_at_what_is_shipped() -> None:
    """The parameters of a fit say what the rates of the GPUs say."""
    rows = read_timed_rows()[:4]

    shipped, chosen = score_rows(rows), score_rows(rows, choose_rates(read_shipped(rows)))

    assert chosen == shipped

"""Floors of the times that GPUs took."""

import pytest

from service.estimator.speed.learning import correct_rates, learn_speeds
from service.estimator.speed.rates import get_rates
from tests.accuracy.times.fitting import choose_rates, read_shipped
from tests.accuracy.times.rows import read_timed_rows
from tests.accuracy.times.scoring import score_rows, summarise_errors

FLOORS = {"all": (0.067, 0.234), "sweep_h100": (0.072, 0.23), "sweep_h200": (0.092, 0.246)}
"""Median and 90th percentile of the error: what is reached now, rounded up."""
BIAS = 0.01
NUM_TIMES = 121
LEARNT = 0.1
"""Median after one measurement of a host that the prior is wrong about by half."""


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
    rows = read_timed_rows()

    shipped, chosen = score_rows(rows), score_rows(rows, choose_rates(read_shipped(rows)))

    assert [score.predicted_s for score in chosen] == pytest.approx(
        [score.predicted_s for score in shipped], rel=1e-9
    )


@pytest.mark.parametrize("file", ["sweep_h100", "sweep_h200"])
def test_one_measurement_of_a_host_corrects_a_prior_of_another(file: str) -> None:
    """From a host twice as fast, one run that waits brings the others back."""
    rows = [row for row in read_timed_rows() if row.file == file]
    first = next(row for row in rows if row.name == "models/pythia-1b/bf16 2x1024")
    others = [row for row in rows if row is not first]
    wrong = {row.device.name: get_rates(row.device.name).launch_s / 2 for row in rows}
    rates = choose_rates({**read_shipped(rows), **wrong})
    before = summarise_errors(score_rows(others, rates))

    speeds = learn_speeds([first.measure(rates(first))])
    after = summarise_errors(
        score_rows(others, lambda row: correct_rates(rates(row) or get_rates(""), speeds))
    )

    assert after.median < before.median / 2
    assert after.median < LEARNT

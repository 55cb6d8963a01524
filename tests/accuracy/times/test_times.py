"""Floors of the times that GPUs took."""

import pytest

from service.calibration.speeds import NOISE
from tests.accuracy.times.fitting import choose_rates, read_shipped
from tests.accuracy.times.learning import (
    FAST,
    OTHER,
    RIGHT,
    SAME,
    SLOW,
    measure_noise,
    score_lesson,
)
from tests.accuracy.times.rows import read_timed_rows
from tests.accuracy.times.scoring import correlate_gpus, score_rows, summarise_errors

FLOORS = {"all": (0.063, 0.202), "sweep_h100": (0.060, 0.215), "sweep_h200": (0.088, 0.236)}
"""Median and 90th percentile of the error: what is reached now, rounded up."""
BIAS = 0.01
NUM_TIMES = 121
LESSONS = {
    (SAME, RIGHT): 0.027,
    (SAME, SLOW): 0.039,
    (SAME, FAST): 0.038,
    (OTHER, RIGHT): 0.067,
    (OTHER, SLOW): 0.087,
    (OTHER, FAST): 0.087,
}
"""Median error of other times after one measurement: what is reached now, rounded up."""
PACED = {SLOW: 0.11, FAST: 0.11}
"""The 90th percentile for the same settings, which is 0.25 and 0.37 without a run of few tokens."""
NUM_PAIRS = {SAME: 58, OTHER: 3650}
NUM_COMMON = 33
COMMON = 0.2
"""Correlation of errors on two GPUs above which a term would be missing of some cases."""


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


def test_errors_on_one_gpu_say_nothing_of_those_on_another() -> None:
    """What a term would leave out of a case it would leave out on both: the rest are the hosts."""
    num_common, common = correlate_gpus(score_rows(read_timed_rows()))

    assert num_common == NUM_COMMON
    assert abs(common) <= COMMON


def test_the_fit_begins_at_what_is_shipped() -> None:
    """The parameters of a fit say what the rates of the GPUs say."""
    rows = read_timed_rows()

    shipped, chosen = score_rows(rows), score_rows(rows, choose_rates(read_shipped(rows)))

    assert [score.predicted_s for score in chosen] == pytest.approx(
        [score.predicted_s for score in shipped], rel=1e-9
    )


@pytest.mark.parametrize(("kind", "host"), list(LESSONS))
def test_one_measurement_tells_of_its_machine(kind: str, host: float) -> None:
    """Of a host half as fast or twice as fast it brings the other times back, and where the prior
    was right it takes little away.
    """
    lesson = score_lesson(host, kind)

    assert lesson.after.num >= NUM_PAIRS[kind]
    assert lesson.after.median <= LESSONS[kind, host]
    assert host == RIGHT or lesson.after.median < 0.6 * lesson.before.median


@pytest.mark.parametrize("host", list(PACED))
def test_few_tokens_tell_of_the_host_where_the_gpu_decides(host: float) -> None:
    """A run that the GPU decides says nothing of a host that is slower or faster than believed."""
    lesson = score_lesson(host, SAME)

    assert lesson.after.p90 <= PACED[host]
    assert lesson.after.p90 < 0.6 * lesson.alone.p90


def test_single_runs_are_as_uncertain_as_is_said() -> None:
    """How far what one run tells is believed rests on how far recorded runs are off."""
    assert measure_noise() == pytest.approx(dict(NOISE), rel=0.05)

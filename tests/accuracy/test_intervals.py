"""Widths that residuals set, and what they cover."""

from random import Random

import pytest

from service.estimator.memory.intervals.ends import PER_MILLION, get_residual_ends
from tests.accuracy.widths.conformal import (
    NARROWEST,
    NUM_FOLDS,
    Residual,
    Width,
    binomial_range,
    coverage,
    fold_of,
    holds,
    width,
)


def _residual(
    ratio: float, group: str = "g", *, low: float | None = None, high: float | None = None
) -> Residual:
    return Residual(
        kind="training", quantity="reserved", group=group, low=low or ratio, high=high or ratio
    )


def test_what_is_drawn_alike_is_covered_as_promised() -> None:
    """Widths of 400 groups hold 95 % of 4,000 others."""
    draw = Random(7)  # noqa: S311 - a fixed series for a test
    ratios = [draw.gauss(1.0, 0.1) for _ in range(4400)]

    widths = width([_residual(ratio, f"set/{index}") for index, ratio in enumerate(ratios[:400])])
    others = [_residual(ratio, f"other/{index}") for index, ratio in enumerate(ratios[400:])]
    share, groups = coverage((residual.group, holds(widths, residual)) for residual in others)

    assert groups == 4000
    assert share == pytest.approx(0.95, abs=0.02)


def test_a_long_series_of_one_model_does_not_decide() -> None:
    """A hundred readings of one group weigh as much as the one of each other group."""
    others = [_residual(1.0, f"g{index}") for index in range(200)]
    series = [_residual(1.5, "series") for _ in range(100)]

    assert width([*others, *series]).high < 1.5


def test_few_groups_give_their_extremes() -> None:
    """Five groups cannot promise more than what they have seen."""
    found = width([_residual(ratio, f"g{ratio}") for ratio in (0.9, 0.95, 1.0, 1.05, 1.2)])

    assert (found.low, found.high, found.num_groups) == (0.9, 1.2, 5)


def test_exact_answers_get_a_narrow_interval_that_is_not_empty() -> None:
    """Where every case is met to the byte there is still some doubt."""
    found = width([_residual(1.0, f"g{index}") for index in range(50)])

    assert (found.low, found.high) == (1 - NARROWEST, 1 + NARROWEST)


def test_a_reading_counts_from_the_end_that_is_nearer() -> None:
    """What its print allows is no error."""
    assert _residual(1.0, low=0.9, high=1.1).ratio == 1.0
    assert _residual(1.0, low=1.1, high=1.2).ratio == 1.1
    assert _residual(1.0, low=0.8, high=0.9).ratio == 0.9


def test_folds_are_fixed_by_names_and_none_is_empty() -> None:
    """A group never measures the widths that it set, today and in a year."""
    folds = [fold_of(f"group {index}") for index in range(200)]

    assert set(folds) == set(range(NUM_FOLDS))
    assert fold_of("traced/llama-3-8b") == fold_of("traced/llama-3-8b")


def test_the_binomial_range_holds_its_level() -> None:
    """Of 100 groups held at 0.95 each, 90 to 99 are covered in 95 % of all draws."""
    low, high = binomial_range(100)

    assert (low, high) == (0.90, 0.99)


def test_coverage_counts_groups_alike() -> None:
    """One group wholly outside of two is a half, however many readings it has."""
    widths = Width(low=0.9, high=1.1, num_groups=1)
    found = [*[_residual(2.0, "out") for _ in range(9)], _residual(1.0, "in")]

    assert coverage((residual.group, holds(widths, residual)) for residual in found) == (0.5, 2)


def test_every_kind_has_a_width_around_one() -> None:
    """The table holds both ends for known kinds, and the pooled ones for a kind without cases."""
    for quantity in ("allocated", "reserved"):
        for kind in ("a kind without cases", "training"):
            low, high = get_residual_ends(kind, quantity)

            assert low < PER_MILLION < high

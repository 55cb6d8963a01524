"""A mean is believed as far as its own variance and its distance from its parent allow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.calibration.shrinkage import (
    Mean,
    average_groups,
    compute_weight,
    estimate_between_variance,
    shrink,
    shrink_firmly,
)

VALUES = st.floats(-1e6, 1e6)
VARIANCES = st.floats(1e-9, 1e6)


@given(value=VALUES, variance=VARIANCES, parent=VALUES, between=VARIANCES)
def test_what_is_believed_lies_between_parent_and_mean(
    value: float, variance: float, parent: float, between: float
) -> None:
    """Nothing is ever moved beyond what was measured, nor away from it."""
    found = shrink(Mean(value=value, variance=variance), prior=parent, between=between)

    slack = 1e-9 * max(1.0, abs(value), abs(parent))
    assert min(value, parent) - slack <= found <= max(value, parent) + slack


def test_what_lies_within_its_own_doubt_is_not_believed() -> None:
    """A distance of one standard deviation or less is no reason to move, unless groups are known to
    differ.
    """
    doubtful = Mean(value=0.001, variance=0.001**2)

    assert compute_weight(doubtful) == 0
    assert compute_weight(doubtful, between=0.001**2) == pytest.approx(0.5)


def test_what_is_far_outside_is_believed_whatever_its_siblings_say() -> None:
    """A hundred quiet groups do not hold back one that is loud."""
    assert compute_weight(Mean(value=0.1, variance=0.001**2), between=1e-12) == pytest.approx(
        1, abs=1e-3
    )


@pytest.mark.parametrize(
    ("deviations", "moved"),
    [(0.9, 0.0), (1.0, 0.0), (1.788, 1.288), (2.576, 2.576), (3.0, 3.0), (-3.0, -3.0)],
)
def test_what_is_far_is_left_where_it_was_measured(deviations: float, moved: float) -> None:
    """Between one deviation and what one draw in a hundred exceeds it moves part of the way."""
    parent, deviation = 0.5, 0.1

    found = shrink_firmly(
        Mean(value=parent + deviations * deviation, variance=deviation**2), prior=parent
    )

    assert (found - parent) / deviation == pytest.approx(moved)


@given(value=st.floats(0.01, 10), counts=st.lists(st.integers(1, 1000), min_size=2, max_size=5))
def test_more_measurements_move_further(value: float, counts: list[int]) -> None:
    """The variance of a mean falls with its measurements, and so does what holds it back."""
    weights = [
        compute_weight(Mean(value=value, variance=1 / count, count=count))
        for count in sorted(counts)
    ]

    assert weights == sorted(weights)


def test_groups_that_differ_have_a_variance() -> None:
    """What squared distances hold beyond the means' own variances, and nothing below zero."""
    apart = [Mean(value=value, variance=0.01) for value in (-1.0, 1.0)]
    alike = [Mean(value=value, variance=1.0) for value in (-0.1, 0.1)]

    assert estimate_between_variance(apart) == pytest.approx(0.99)
    assert estimate_between_variance(alike) == 0
    assert estimate_between_variance(apart[:1]) == 0


def test_one_group_is_its_own_affair() -> None:
    """Only a second group that agrees makes a residual something that groups share."""
    one = Mean(value=0.1, variance=1e-6, count=3)

    both = average_groups([one, one])

    assert average_groups([one]) is None
    assert both is not None
    assert (both.value, both.count) == (0.1, 6)
    assert both.variance == pytest.approx(5e-7)

"""What the estimator has reached, so that no change makes it worse; ``docs/accuracy.md`` must say
the same.
"""

import pytest

from tests.accuracy.found import traced
from tests.accuracy.pages import make_pages
from tests.accuracy.report import refusal_counts
from tests.accuracy.scoring import Scores
from tests.accuracy.statistics import Summary, quantities, summarise

EXACT = (
    "parameters, total",
    "parameters, active",
    "parameters, embedding",
    "parameter tensors",
    "parameters, by module",
    "training, optimizer step",
    "training, between steps",
    "FSDP2 rank, optimizer step",
    "FSDP2 rank, between steps",
    "serving, load",
    "serving, cache",
)
FLOORS = {
    "training, peak": (1e-6, 0.0002),
    "training, forward": (1e-6, 0.00022),
    "training, backward": (1e-6, 0.0002),
    "training, peak in 512-byte blocks": (0.0006, 0.048),
    "training, reserved": (0.0005, 0.13),
    "training, reserved, expandable segments": (0.001, 0.16),
    "FSDP2 rank, peak": (1e-6, 0.0002),
    "FSDP2 rank, forward": (1e-6, 0.0002),
    "FSDP2 rank, backward": (1e-6, 0.0002),
    "FSDP2 rank, peak in 512-byte blocks": (0.0003, 0.0009),
    "FSDP2 rank, reserved": (1e-6, 0.071),
    "FSDP2 rank, reserved, expandable segments": (1e-6, 0.057),
    "serving, prefill": (1e-6, 0.0005),
    "serving, decode": (1e-6, 5e-5),
}
"""Median and maximum of the absolute relative error: what is reached now, rounded up."""
CASES = {
    "parameters, total": 96,
    "training, peak": 297,
    "FSDP2 rank, peak": 26,
    "serving, cache": 49,
}
"""Questions that were answered when these floors were set; a refusal must not make a floor easier
to hold.
"""


def _scores() -> Scores:
    return traced()


def _summary(quantity: str) -> Summary:
    return summarise(quantity, _scores().of(quantity))


@pytest.mark.parametrize("quantity", EXACT)
def test_counted_quantities_are_exact(quantity: str) -> None:
    """Parameters, states and the step are counted, not estimated: every case agrees to the unit."""
    wrong = [score for score in _scores().of(quantity) if score.difference]

    assert _scores().of(quantity)
    assert wrong == []


@pytest.mark.parametrize("quantity", FLOORS)
def test_errors_stay_below_their_floor(quantity: str) -> None:
    """No change may make a quantity worse than what has been reached."""
    median, largest = FLOORS[quantity]

    summary = _summary(quantity)

    assert summary.median <= median
    assert summary.max <= largest


@pytest.mark.parametrize("quantity", CASES)
def test_no_question_that_was_answered_is_refused_again(quantity: str) -> None:
    """The floors are held by at least as many cases as when they were set."""
    assert _summary(quantity).num_cases >= CASES[quantity]


def test_every_quantity_has_a_floor() -> None:
    """A new quantity cannot go without one."""
    assert set(quantities(_scores().scores)) == {*EXACT, *FLOORS}


def test_the_step_of_a_whole_model_is_covered_by_its_interval() -> None:
    """The 0.95 interval of allocated bytes holds at least 95 of 100 traced peaks."""
    coverage = _summary("training, peak").coverage

    assert coverage is not None
    assert coverage >= 0.95


def test_every_refusal_has_a_reason_in_words() -> None:
    """A case without an answer says what is not modelled, or which word the contract lacks."""
    assert all(len(reason.split()) > 3 for reason, _ in refusal_counts(_scores()))


def test_the_documentation_says_what_the_code_says() -> None:
    """The generated pages are those of this code: run ``python -m tests.accuracy --write`` after a
    change.
    """
    for path, content in make_pages(_scores()).items():
        assert path.read_text() == content, f"{path.name} is stale"

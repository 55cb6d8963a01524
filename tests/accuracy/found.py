"""The scores of this run, worked out once for all tests that look at them."""

from functools import cache

from tests.accuracy.published.report import Published, score_all
from tests.accuracy.published.rows import published_cases
from tests.accuracy.scoring import Scores, score_everything


@cache
def traced() -> Scores:
    """Return the scores against traced runs."""
    return score_everything()


@cache
def published() -> Published:
    """Return the scores against published readings."""
    return score_all(published_cases())

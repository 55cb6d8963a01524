"""Steps and passes of embedding models, classifiers, rerankers and reward models, to the byte."""

import pytest

from tests.accuracy.heads import HeadCase, head_cases

_SCALARS = 8
"""Losses and counts of one number each, which the estimator does not count."""


@pytest.mark.parametrize("case", head_cases(), ids=lambda case: case.id)
def test_a_head_is_that_of_transformers(case: HeadCase) -> None:
    """Parameters to the unit, and the highest bytes of each phase but for scalars."""
    assert case.build().parameter_counts().total == case.parameters
    assert case.estimate_peaks() == pytest.approx(case.peaks, abs=_SCALARS)

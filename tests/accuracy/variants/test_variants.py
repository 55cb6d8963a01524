"""Small models with unusual fields, against transformers' own code."""

import pytest

from tests.accuracy.variants.__main__ import VariantCase, variant_cases

_ROUNDING = 640
"""Bytes of a number for each of the 128 tokens, which the end of forward holds for a moment, and of
single numbers: losses, norms, counts.
"""


@pytest.mark.parametrize("case", variant_cases(), ids=str)
def test_a_variant_is_that_of_transformers(case: VariantCase) -> None:
    """Parameters to the unit, and the highest bytes of each phase but for scalars."""
    assert case.build().parameter_counts().total == case.parameters
    assert case.estimate_peaks() == pytest.approx(case.peaks, abs=_ROUNDING)

"""The verdict holds device bytes against what a process can allocate."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.planner.verdict import Verdict, judge
from tests.unit.planner.builders import a_device, an_estimate

BYTES = st.integers(min_value=1, max_value=2**50)


@pytest.mark.parametrize(
    ("point", "high", "verdict"),
    [
        (99, 100, Verdict.FITS),
        (100, 100, Verdict.FITS),
        (99, 101, Verdict.TIGHT),
        (100, 101, Verdict.TIGHT),
        (101, 101, Verdict.DOES_NOT_FIT),
    ],
)
def test_verdict_at_its_borders(point: int, high: int, verdict: Verdict) -> None:
    """Exactly full still fits; what fits only at the point is tight."""
    assert judge(an_estimate(point, high=high), a_device(100)).verdict is verdict


@given(point=BYTES, above=BYTES, usable=BYTES)
def test_headroom_and_deficit_are_never_negative_and_never_both(point: int, above: int, usable: int) -> None:
    """One of the two is zero, and their difference is what is left."""
    judged = judge(an_estimate(point, high=point + above), a_device(usable))

    assert judged.headroom_bytes >= 0
    assert judged.deficit_bytes >= 0
    assert judged.headroom_bytes - judged.deficit_bytes == usable - point
    assert (judged.verdict is Verdict.DOES_NOT_FIT) == (judged.deficit_bytes > 0)

"""Recorded loops of a real GPU: the replay makes the same requests, and reserves the same bytes."""

from statistics import median

import pytest

from tests.accuracy.allocator.comparison import Comparison, compare
from tests.accuracy.allocator.recorded import list_loops, load_loop

MEDIAN, WORST = 1e-9, 0.0005
"""Relative errors of the reserved bytes: what is reached now, rounded up."""
DIFFERENT = {"t14"}
"""Loops whose rotary tables, of 2 MiB and more, the replay frees later than the GPU does."""


@pytest.fixture(scope="module", name="comparisons")
def _comparisons() -> dict[str, Comparison]:
    loops = [load_loop(path) for path in list_loops()]
    return {loop.name: compare(loop) for loop in loops if loop.trains}


def test_large_requests_are_the_recorded_ones(comparisons: dict[str, Comparison]) -> None:
    """Every allocation and release beyond 1 MiB, of load and two steps, tensor by tensor."""
    differing = {
        name: str(comparison.divergence)
        for name, comparison in comparisons.items()
        if comparison.divergence is not None and name not in DIFFERENT
    }

    assert differing == {}
    assert len(comparisons) == 14


def test_reserved_bytes_are_the_recorded_ones(comparisons: dict[str, Comparison]) -> None:
    """Most to the byte."""
    errors = [abs(comparison.error) for comparison in comparisons.values()]

    assert median(errors) <= MEDIAN
    assert max(errors) <= WORST

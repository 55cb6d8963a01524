"""Ranks against those that were traced independently, with the same libraries
(``tests/data/truth/README.md``).
"""

import pytest

from tests.accuracy.cases import rank_cases
from tests.traces.scoring import score_kept

QUICK = {
    "rank-22": "rank 0 of 64, fully sharded, one layer of llama-3-8b",
    "rank-24": "the same with three layers",
    "rank-21": "rank 0 of 8, tensor parallel, eight layers",
}


@pytest.mark.parametrize("name", QUICK)
def test_a_rank_is_the_one_that_was_traced_independently(name: str) -> None:
    """Forward, backward and optimizer step peak at the same bytes."""
    [case] = [case for case in rank_cases() if case.id == name]

    scored = score_kept(case)

    assert scored.found == scored.traced

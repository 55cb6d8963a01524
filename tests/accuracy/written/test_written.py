"""Written families against recordings of their types."""

import pytest

from tests.accuracy.written.comparing import compare
from tests.accuracy.written.explained import find_reason
from tests.accuracy.written.page import PAGE, render_page
from tests.accuracy.written.rows import read_rows
from tests.traces.recording import record_kept

SHOWN = {
    "bart": "bf16",
    "bert": "LoRA",
    "codegen": "checkpointed",
    "gemma": "bf16",
}
"""Types, each with a question that showed a fault of one of the two.

Masks of ones and labels; the name of an embedding; attention weights that layers return;
a buffer in the weights' dtype.
"""


@pytest.mark.parametrize("model_type", list(SHOWN))
def test_a_recording_answers_as_the_family_written_by_hand(model_type: str) -> None:
    """Both give the same bytes at every instant."""
    (row,) = compare(model_type, [SHOWN[model_type]], traced=(), record=record_kept)

    assert row.refusal is None
    assert row.recorded == row.written


def test_every_difference_is_explained() -> None:
    """No committed answer of a recording is off by more than a reason says."""
    differing = [row for row in read_rows() if row.difference]

    unexplained = [
        (row.model_type, row.question, row.difference)
        for row in differing
        if find_reason(row) is None
    ]

    assert unexplained == []


def test_the_page_shows_the_rows() -> None:
    """It is made of them, by ``--write``."""
    assert PAGE.read_text() == render_page(read_rows())

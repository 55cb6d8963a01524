"""Written families against recordings of their types."""

import pytest

from tests.accuracy.written.comparing import compare

SHOWN = {
    "bart": "bf16",
    "bert": "LoRA",
    "codegen": "checkpointed",
}
"""Types, each with a question that showed a fault of one of the two.

Masks of ones and labels; the name of an embedding; attention weights that layers return.
"""


@pytest.mark.parametrize("model_type", list(SHOWN))
def test_a_recording_answers_as_the_family_written_by_hand(model_type: str) -> None:
    """Both give the same bytes at every instant."""
    (row,) = compare(model_type, [SHOWN[model_type]])

    assert row.refusal is None
    assert row.recorded == row.written

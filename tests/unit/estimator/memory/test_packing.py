"""Batches whose sequences share rows, or differ in length."""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.values.batches import SequencePacking, count_lengths
from service.estimator.values.errors import EstimatorError
from service.estimator.values.layout import Layout
from service.estimator.values.result import Estimate
from service.estimator.values.workload import Attention, Framework
from tests.builders import a_device, a_model, a_training

_LENGTHS = count_lengths([100, 700, 700, 2000, 300])


def _ask(**changes: Any) -> Estimate:  # noqa: ANN401 - each its own type
    given: dict[str, Any] = {"precision": "bf16", "attention": Attention.FLASH}
    given |= {"sequence_length": 1024, "micro_batch_size": 3}
    return estimate(a_model(), a_training(**(given | changes)), layout=Layout(), device=a_device())


@pytest.mark.parametrize(
    ("packing", "lengths", "rows"),
    [
        (SequencePacking.NONE, (), (3, 1024)),
        (SequencePacking.PADDING_FREE, (), (1, 3 * 1024)),
        (SequencePacking.PACKED, (), (1, 3 * 1024)),
        (SequencePacking.NONE, _LENGTHS, (3, 1024)),
        (SequencePacking.NONE, count_lengths([100, 700]), (3, 700)),
        (SequencePacking.PADDING_FREE, _LENGTHS, (1, 1024 + 700 + 700)),
        (SequencePacking.PADDING_FREE, count_lengths([100, 700]), (1, 800)),
        (SequencePacking.PACKED, _LENGTHS, (1, 3 * 1024)),
    ],
)
def test_rows_are_those_of_the_worst_batch(
    packing: SequencePacking, lengths: tuple[tuple[int, int], ...], rows: tuple[int, int]
) -> None:
    """The longest sequences come together, cut to the longest that is asked for."""
    workload = a_training(
        packing=packing, sequence_lengths=lengths, sequence_length=1024, micro_batch_size=3
    )

    assert workload.rows == rows


def test_short_sequences_take_less_without_padding() -> None:
    """One row of all of them is smaller than rows as long as the longest."""
    padded = _ask(sequence_lengths=_LENGTHS)
    flat = _ask(sequence_lengths=_LENGTHS, packing=SequencePacking.PADDING_FREE)
    one_row = _ask(sequence_length=1024 + 700 + 700, micro_batch_size=1)

    assert flat.allocated_bytes < padded.allocated_bytes
    assert flat.allocated_bytes == one_row.allocated_bytes
    assert padded.allocated_bytes == _ask().allocated_bytes


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"attention": Attention.SDPA}, "needs a mask of all its tokens"),
        ({"padding_mask": True}, "leaves no padding"),
        ({"framework": Framework.TORCHTITAN, "attention": Attention.FLASH}, "packed already"),
    ],
)
def test_what_cannot_be_packed_is_refused(changes: dict[str, Any], says: str) -> None:
    """Flash attention alone knows where a sequence ends in a row."""
    with pytest.raises(EstimatorError, match=says):
        _ask(packing=SequencePacking.PADDING_FREE, **changes)

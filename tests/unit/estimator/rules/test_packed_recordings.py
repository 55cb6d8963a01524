"""Packed rows of recorded models: one sequence to a kernel that is told lengths."""

import pytest

from service.catalog.recorded_models import load_recorded_architecture
from service.estimator.estimate import estimate
from service.estimator.values.batches import SequencePacking
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout
from service.estimator.values.workload import Attention, TrainWorkload
from tests.builders import a_device, a_training


def _ask(workload: TrainWorkload) -> int:
    model = load_recorded_architecture("apertus-default")
    return estimate(model, workload, layout=Layout(), device=a_device()).allocated_bytes


def test_a_packed_row_takes_what_one_sequence_takes() -> None:
    """Flash attention gets the lengths, and makes no mask."""
    packed = a_training(
        sequence_length=512,
        micro_batch_size=4,
        packing=SequencePacking.PACKED,
        attention=Attention.FLASH,
    )
    lone = a_training(sequence_length=2048, micro_batch_size=1, attention=Attention.FLASH)

    assert _ask(packed) == _ask(lone)


def test_a_mask_of_a_row_was_not_recorded() -> None:
    """SDPA gets one; what is answered is named."""
    workload = a_training(packing=SequencePacking.PACKED, attention=Attention.SDPA)

    with pytest.raises(NotModelledError, match="under a mask") as refused:
        _ask(workload)

    assert "attention flash" in refused.value.message

"""Batches whose sequences share rows, or differ in length."""

from typing import Any

import pytest

from service.estimator.estimate import estimate
from service.estimator.memory.timeline import build_train_timeline
from service.estimator.model.families.registry import architecture_from_config
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


_SMALL = architecture_from_config(
    {
        "model_type": "llama",
        "hidden_size": 256,
        "intermediate_size": 512,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 1000,
        "max_position_embeddings": 4096,
        "tie_word_embeddings": True,
    }
)


@pytest.mark.parametrize(
    ("attention", "length", "forward", "backward"),
    [
        (Attention.SDPA, 128, 11_433_024, 11_942_968),
        (Attention.SDPA, 512, 50_450_496, 52_490_296),
        (Attention.EAGER, 128, 15_746_064, 16_256_008),
    ],
)
def test_other_attention_keeps_sequences_apart_by_a_mask(
    attention: Attention, length: int, forward: int, backward: int
) -> None:
    """One of all tokens of the row: transformers 5.23's llama under fake tensors, whose positions
    packed two sequences, had so many live bytes above its weights.
    """
    workload = a_training(
        precision="bf16",
        attention=attention,
        packing=SequencePacking.PACKED,
        sequence_length=length,
        micro_batch_size=2,
        keeps_logits=False,
        fp32_outputs=False,
        optimizer="sgd",
    )

    timeline = build_train_timeline(_SMALL, workload, Layout())

    above = {name: peak - timeline.steady_bytes for name, peak in timeline.phases}
    assert above["forward_pass"] == pytest.approx(forward, rel=1e-4)
    assert above["backward_pass"] == pytest.approx(backward, rel=1e-4)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"padding_mask": True}, "leaves no padding"),
        ({"framework": Framework.TORCHTITAN, "attention": Attention.FLASH}, "packed already"),
    ],
)
def test_what_cannot_be_packed_is_refused(changes: dict[str, Any], says: str) -> None:
    """Rows without padding have no mask of it, and some frameworks pack by themselves."""
    with pytest.raises(EstimatorError, match=says):
        _ask(packing=SequencePacking.PADDING_FREE, **changes)

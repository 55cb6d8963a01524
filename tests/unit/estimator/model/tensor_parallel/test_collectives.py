"""What collectives between tensor-parallel ranks allocate."""

import pytest

from service.estimator.model.weights.collectives import apply_sharded_linear
from service.estimator.model.weights.tensors import Linear, Split
from service.estimator.rules.transformers import check_in_transformers
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.values.errors import NotModelledError
from service.estimator.values.layout import Layout, Sharding
from tests.builders import a_model, a_training

DTYPE_BYTES = 2


def _peak(split: Split, *, ins: int, outs: int, taken: int) -> tuple[int, int]:
    """Return peak and remaining elements per token of one forward layer that four ranks share,
    without its input.
    """
    tape = Tape(Section.FORWARD, Mode.INFERENCE)
    layer = Linear(name="x", kind="mlp", in_features=ins, out_features=outs, split=split, ranks=4)
    weight = Parameter("w", ins * outs, a_training().precision.compute_dtype, trainable=False)
    x = Value(tape.allocate(Category.ACTIVATIONS, sizes.ZERO), sizes.per_token(taken), weight.dtype)
    apply_sharded_linear(
        tape, layer, x, weight, rows=sizes.per_token(1), bias=None, category=Category.ACTIVATIONS
    )
    points = tape.ledger.find_peak_candidates()[Section.FORWARD]
    left = sizes.total(tape.ledger.live.values())
    return max(point.bytes[3] for point in points) // DTYPE_BYTES, left[3] // DTYPE_BYTES


def test_rows_are_added_up_into_a_new_tensor() -> None:
    """A rank's share of the sum and the sum are there at once."""
    assert _peak(Split.ROWS, ins=8, outs=64, taken=8) == (128, 64)


def test_gathered_columns_are_stacked_and_then_put_side_by_side() -> None:
    """A rank's columns, those of all ranks stacked, and the result are there at once."""
    assert _peak(Split.GATHERED_COLUMNS, ins=64, outs=8, taken=64) == (8 + 32 + 32, 32)


def test_columns_stay_apart() -> None:
    """Nothing is gathered where the next layer reads a rank's own columns."""
    assert _peak(Split.COLUMNS, ins=64, outs=8, taken=64) == (8, 8)


def test_a_replicated_input_is_cut_into_columns() -> None:
    """Rows of an input that every rank has whole: a copy of the rank's columns first."""
    assert _peak(Split.SCATTERED_ROWS, ins=16, outs=8, taken=64) == (16 + 8, 8)


@pytest.mark.parametrize(
    ("layout", "field"),
    [
        (Layout(pipeline_parallel=2), "layout.pipeline_parallel"),
        (Layout(tensor_parallel=2, sequence_parallel=True), "layout.sequence_parallel"),
        (Layout(tensor_parallel=2, data_parallel=2), "layout.sharding"),
        (
            Layout(tensor_parallel=2, data_parallel=2, zero_stage=3, sharding=Sharding.DEEPSPEED),
            "layout.sharding",
        ),
    ],
)
def test_what_transformers_cannot_spread_is_refused_with_what_can(
    layout: Layout, field: str
) -> None:
    """Data parallel times tensor parallel is all that its training loop runs here."""
    with pytest.raises(NotModelledError) as refused:
        check_in_transformers(a_model(), a_training(), layout)

    assert refused.value.field == field

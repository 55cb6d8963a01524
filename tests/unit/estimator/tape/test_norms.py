"""Normalisations: what each keeps, in bytes per token of 64 features."""

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.ops import norms
from service.estimator.values.dtypes import DType
from tests.unit.estimator.tape.builders import (
    ONE,
    a_leaf,
    a_tape,
    a_weight,
    live_bytes,
    run_backward,
    stored_gradients,
)


@pytest.mark.parametrize(
    ("dtype", "kept"), [(DType.BF16, 4 * 64 + 2 * 64 + 4), (DType.FP32, 4 * 64 + 4 * 64 + 4)]
)
def test_a_root_mean_square_norm_keeps_its_upcast_and_its_normalised_rows(
    dtype: DType, kept: int
) -> None:
    """In 16 bit the fp32 upcast, the normalised rows and one number a row; with the output 8h +
    4.
    """
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(64), dtype)
    y = norms.rms_norm(tape, x, a_weight(64, dtype), ONE)
    tape.free(x, y)

    assert live_bytes(tape) == sizes.per_token(kept)


def test_a_layer_norm_keeps_its_input_and_two_numbers_a_row() -> None:
    """One fused operation: the input and an fp32 mean and deviation."""
    tape, weight, bias = a_tape(), a_weight(64), a_weight(64, name="bias")
    x = a_leaf(tape, sizes.per_token(64))
    y = norms.layer_norm(tape, x, weight, bias, ONE)
    tape.free(x)
    kept = live_bytes(tape)
    run_backward(tape, y)

    assert kept == sizes.per_token(128 + 128 + 8)
    assert stored_gradients(tape) == 128


def test_autocast_runs_a_layer_norm_in_fp32() -> None:
    """Its input is cast first, and the result stays fp32."""
    tape = a_tape(autocast=DType.BF16)
    x = a_leaf(tape, sizes.per_token(64))
    y = norms.layer_norm(tape, x, a_weight(64, DType.FP32), None, ONE)
    tape.free(x)

    assert y.dtype is DType.FP32
    assert live_bytes(tape) == sizes.per_token(4 * 64 + 4 * 64 + 8)

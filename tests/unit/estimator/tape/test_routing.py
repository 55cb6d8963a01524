"""Operations of routed experts; expectations are bytes per token."""

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode
from service.estimator.tape.nodes import as_value
from service.estimator.tape.ops import products, routing
from service.estimator.values.dtypes import DType
from tests.unit.estimator.tape.builders import (
    ONE,
    a_leaf,
    a_tape,
    a_weight,
    an_input,
    live_bytes,
    run_backward,
    stored_gradients,
)


def test_choosing_keeps_the_indices() -> None:
    """Two of eight scores: their values, and 64-bit indices that backward scatters by."""
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(8))
    chosen, indices = routing.top_k(tape, x, sizes.per_token(2))
    tape.free(x, indices)

    assert live_bytes(tape) == sizes.per_token(4 + 16)
    assert run_backward(tape, chosen) == 4 + 16 + 16 + 16


def test_dividing_in_place_keeps_what_was_there() -> None:
    """No new tensor in inference; in training a copy of the old values, for the divisor's
    gradient.
    """
    trained, frozen = a_tape(), a_tape(Mode.INFERENCE)
    x, divisor = a_leaf(trained, sizes.per_token(2)), a_leaf(trained)
    y = routing.divide_in_place(trained, x, divisor)
    trained.free(x, divisor)
    quotient = routing.divide_in_place(frozen, an_input(frozen), an_input(frozen))

    assert live_bytes(trained) == sizes.per_token(4 + 4 + 2)
    assert run_backward(trained, y) == 4 + 4 + 2 + 4 * 4
    assert not quotient.requires_grad


def test_a_grouped_product_keeps_its_rows_and_offsets() -> None:
    """Like a linear layer on a stack of weights, with the ends of each expert's rows."""
    tape, weight = a_tape(), a_weight(100)
    x, offsets = a_leaf(tape), products.allocate_integers(tape, sizes.constant(8), bytes_each=4)
    y = routing.grouped_product(tape, x, as_value(weight), offsets, sizes.per_token(3))
    tape.free(x, offsets)
    kept = live_bytes(tape)
    run_backward(tape, y)

    assert kept == (32, 0, 0, 2 + 6, 0, 0)
    assert stored_gradients(tape) == 100


def test_a_sum_of_rows_expands_its_gradient_without_a_copy() -> None:
    """The gradient is a view of the smaller one."""
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(2))
    y = routing.sum_rows(tape, x, ONE)
    tape.free(x)

    assert run_backward(tape, y) == 2


def test_a_sum_over_experts_copies_its_expanded_gradient() -> None:
    """Leaving the view by token takes a copy of the input's size."""
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(2))
    y = routing.sum_over_experts(tape, x, ONE)
    tape.free(x)

    assert run_backward(tape, y) == 2 + 4


@pytest.mark.parametrize(
    ("weight_dtype", "autocast", "result"),
    [
        (DType.BF16, None, DType.FP32),
        (DType.FP32, None, DType.FP32),
        (DType.FP32, DType.BF16, DType.BF16),
    ],
)
def test_a_router_in_fp32_is_taken_back_by_autocast(
    weight_dtype: DType, autocast: DType | None, result: DType
) -> None:
    """The product runs in fp32, unless autocast casts both sides again; the weight's gradient is
    stored once.
    """
    tape, weight = a_tape(autocast=autocast), a_weight(10, weight_dtype)
    y = routing.apply_linear_in_fp32(tape, a_leaf(tape, dtype=weight_dtype), weight, ONE)
    products.end_autocast(tape)
    run_backward(tape, y)

    assert y.dtype is result
    assert stored_gradients(tape) == 10

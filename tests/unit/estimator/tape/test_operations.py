"""Operations of the tape: their results, what they keep for backward, and backward's peak.

Expectations are PyTorch's derivative formulas (tools/autograd/derivatives.yaml), bytes per token.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from service.estimator.model.modules.mlp import activations
from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Parameter, Value, as_value
from service.estimator.tape.ops import elementwise, products
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

Operation = Callable[[Tape, Value], Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Bytes per token: of the result, of what stays besides it once the input's name is gone, and
    of backward's peak.
    """

    result: int
    kept: int
    backward: int


def _cost(operation: Operation, dtype: DType = DType.BF16, autocast: DType | None = None) -> Cost:
    tape = a_tape(autocast=autocast)
    x = a_leaf(tape, ONE, dtype)
    y = operation(tape, x)
    tape.free(x)
    kept = live_bytes(tape)[3]
    width = y.numel[3] * y.dtype.bytes_per_element
    return Cost(result=width, kept=kept - width, backward=run_backward(tape, y))


@pytest.mark.parametrize(
    ("operation", "cost"),
    [
        (elementwise.activate_saving_input, Cost(result=2, kept=2, backward=2 + 2 + 2)),
        (elementwise.activate_saving_output, Cost(result=2, kept=0, backward=2 + 2)),
        (elementwise.softmax, Cost(result=2, kept=0, backward=2 + 2)),
        (elementwise.add_scalar, Cost(result=2, kept=0, backward=2)),
        (elementwise.multiply_scalar, Cost(result=2, kept=0, backward=2 + 2)),
        (elementwise.power, Cost(result=2, kept=2, backward=2 + 2 + 3 * 2)),
        (lambda t, x: elementwise.cast(t, x, DType.FP32), Cost(result=4, kept=0, backward=4 + 2)),
        (lambda t, x: elementwise.cast(t, x, DType.BF16), Cost(result=2, kept=0, backward=2)),
        (lambda t, x: elementwise.dropout(t, x, 0.1), Cost(result=2, kept=1, backward=2 + 1 + 2)),
        (lambda t, x: elementwise.dropout(t, x, 0.0), Cost(result=2, kept=0, backward=2)),
        (
            lambda t, x: elementwise.multiply_by_table(t, x, DType.BF16),
            Cost(result=2, kept=0, backward=2 + 2),
        ),
        (
            lambda t, x: elementwise.multiply_by_table(t, x, DType.FP32),
            Cost(result=4, kept=0, backward=4 + 4 + 2),
        ),
        (products.copy_contiguous, Cost(result=2, kept=0, backward=2)),
        (elementwise.silu, Cost(result=2, kept=2, backward=2 + 2 + 5 * 2 + 2)),
    ],
)
def test_what_an_operation_keeps_and_needs(operation: Operation, cost: Cost) -> None:
    """Backward's peak is the gradient given, what was kept, what is made on the way and the
    gradient handed on.
    """
    assert _cost(operation) == cost


@pytest.mark.parametrize(
    ("operation", "cost"),
    [
        (elementwise.power, Cost(result=4, kept=4, backward=4 + 4 + 3 * 4)),
        (elementwise.softmax, Cost(result=4, kept=0, backward=4 + 4)),
    ],
)
def test_autocast_computes_some_operations_in_fp32(operation: Operation, cost: Cost) -> None:
    """Powers and softmax are on autocast's fp32 list: their input is cast first."""
    assert _cost(operation, autocast=DType.BF16) == cost


def test_a_product_keeps_what_the_other_side_needs() -> None:
    """Each factor is kept only if the other one needs a gradient."""
    tape = a_tape()
    x, constant = a_leaf(tape), an_input(tape)
    y = elementwise.multiply(tape, x, constant)
    tape.free(x, constant)

    assert live_bytes(tape) == sizes.per_token(2 + 2)
    assert run_backward(tape, y) == 2 + 2 + 2


def test_a_broadcast_factor_gets_a_summed_gradient() -> None:
    """The gradient of a smaller factor is made at full size and summed."""
    tape = a_tape()
    x, row = a_leaf(tape, sizes.per_token(8)), a_leaf(tape, ONE)
    y = elementwise.multiply(tape, x, row)
    tape.free(x, row)

    assert y.numel == sizes.per_token(8)
    assert run_backward(tape, y) == (16 + 16 + 2) + 16 + 16 + 2


def test_a_product_with_a_weight_stores_its_gradient() -> None:
    """The gradient of a norm's scale is summed over tokens and stays."""
    tape, weight = a_tape(), a_weight(10)
    x = a_leaf(tape, sizes.per_token(10))
    y = elementwise.multiply(tape, as_value(weight), x)
    run_backward(tape, y)

    assert stored_gradients(tape) == 10


def test_a_sum_hands_its_gradient_on_without_a_copy() -> None:
    """Both sides share one gradient; the second one to arrive somewhere may not be changed in
    place.
    """
    tape = a_tape()
    left, right = a_leaf(tape), a_leaf(tape)
    y = elementwise.add(tape, left, right)
    tape.free(left, right)

    assert run_backward(tape, y) == 2


def test_a_sum_of_two_dtypes_casts_the_gradient_back() -> None:
    """An fp32 result of a bf16 side needs a gradient in bf16."""
    tape = a_tape()
    left, right = a_leaf(tape), a_leaf(tape, dtype=DType.FP32)
    y = elementwise.add(tape, left, right)
    tape.free(left, right)

    assert y.dtype is DType.FP32
    assert run_backward(tape, y) == 4 + 2


def test_a_sum_with_a_constant_sends_nothing_there() -> None:
    """A side without a gradient costs nothing in backward."""
    tape = a_tape()
    left, mask = a_leaf(tape), an_input(tape)
    y = elementwise.add(tape, left, mask)
    tape.free(left, mask)

    assert run_backward(tape, y) == 2


def test_a_mean_returns_rows() -> None:
    """The mean over the last dimension has one element a row; its gradient is expanded to the
    input's size.
    """
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(8))
    y = elementwise.reduce_mean(tape, x, ONE)
    tape.free(x)

    assert live_bytes(tape) == sizes.per_token(2)
    assert run_backward(tape, y) == 2 + 16


def test_a_linear_layer_keeps_its_input_for_a_trained_weight() -> None:
    """Input kept; the gradients of weight, bias and input are made together, and those of
    parameters stay.
    """
    tape, weight, bias = a_tape(), a_weight(100), a_weight(10, name="bias")
    x = a_leaf(tape, sizes.per_token(10))
    y = products.linear(tape, x, weight, sizes.per_token(10), bias=bias)
    tape.free(x)
    kept = live_bytes(tape)
    run_backward(tape, y)

    assert kept == sizes.per_token(20 + 20)
    assert stored_gradients(tape) == 110


def test_a_frozen_linear_layer_keeps_nothing() -> None:
    """A frozen weight is needed for the gradient of the input, but it is a state, not part of the
    tape.
    """
    tape = a_tape()
    x = a_leaf(tape, sizes.per_token(10))
    y = products.linear(tape, x, a_weight(100, trainable=False), sizes.per_token(10))
    tape.free(x)

    assert live_bytes(tape) == sizes.per_token(20)
    assert run_backward(tape, y) == 20 + 20
    assert stored_gradients(tape) == 0


def test_autocast_keeps_the_cast_input_and_one_copy_of_the_weight() -> None:
    """The input is cast anew for every product; a trained weight once, until forward is over."""
    tape, weight = a_tape(autocast=DType.BF16), a_weight(100, DType.FP32)
    x = an_input(tape, sizes.per_token(10), DType.FP32)
    ys = [products.linear(tape, x, weight, sizes.per_token(10)) for _ in range(2)]
    tape.free(x, *ys)

    assert live_bytes(tape) == (2 * 100, 0, 0, 2 * 20, 0, 0)
    products.end_autocast(tape)
    assert live_bytes(tape) == (0, 0, 0, 2 * 20, 0, 0)


def test_autocast_casts_a_frozen_weight_for_the_moment() -> None:
    """Only trained weights are in autocast's cache."""
    tape = a_tape(autocast=DType.BF16)
    x = an_input(tape, sizes.per_token(10), DType.FP32)
    y = products.linear(tape, x, a_weight(100, DType.FP32, trainable=False), sizes.per_token(10))
    tape.free(x, y)

    assert live_bytes(tape) == sizes.ZERO


def test_an_embedding_makes_a_gradient_of_the_whole_table() -> None:
    """The indices are kept; the gradient has every row."""
    tape, table = a_tape(), a_weight(1000)
    ids = products.allocate_integers(tape, ONE)
    y = products.embedding(tape, table, ids, sizes.per_token(10))
    tape.free(ids)
    kept = live_bytes(tape)
    run_backward(tape, y)

    assert kept == sizes.per_token(8 + 20)
    assert stored_gradients(tape) == 1000


def test_an_expanded_copy_sums_its_gradient() -> None:
    """Repeated keys of grouped heads are a copy; its gradient is summed back to the groups."""
    tape = a_tape()
    x = a_leaf(tape)
    y = products.copy_contiguous(tape, x, numel=sizes.per_token(4))
    tape.free(x)

    assert live_bytes(tape) == sizes.per_token(8)
    assert run_backward(tape, y) == 8 + 2


def test_a_batched_product_keeps_each_side_for_the_other() -> None:
    """Two gradients of the sides' sizes are made."""
    tape = a_tape()
    left, right = a_leaf(tape), a_leaf(tape)
    y = products.batched_product(tape, left, right, sizes.per_token(5))
    tape.free(left, right)

    assert live_bytes(tape) == sizes.per_token(2 + 2 + 10)
    assert run_backward(tape, y) == 10 + 4 + 4


def test_views_of_a_split_share_one_storage_and_meet_in_one_gradient() -> None:
    """Splitting allocates nothing; backward puts the parts' gradients together into one tensor."""
    tape = a_tape()
    fused = a_leaf(tape, sizes.per_token(3))
    parts = products.split(tape, fused, (ONE, ONE, ONE))
    forward = live_bytes(tape)
    tape.ledger.enter(Section.BACKWARD)
    for part in parts:
        assert part.node is not None
        part.node.grad = tape.scratch(part.numel, part.dtype)
    tape.run_backward()
    tape.free(*parts)

    assert forward == sizes.per_token(6)
    assert live_bytes(tape) == sizes.ZERO


def test_nothing_is_kept_without_a_graph() -> None:
    """Inference frees everything but the result."""
    tape = a_tape(Mode.INFERENCE)
    x = an_input(tape)
    y = activations.new_gelu(tape, x)
    tape.free(x)

    assert live_bytes(tape) == sizes.per_token(2)
    assert not y.requires_grad


@pytest.mark.parametrize(("viewed", "copies"), [(False, 1), (True, 0)])
def test_autocast_keeps_no_copy_of_a_view(viewed: bool, copies: int) -> None:  # noqa: FBT001 - a case
    """A product that reads its weight transposed has a cast of its own, which goes with the product
    where no graph keeps it.
    """
    tape = a_tape(Mode.DISCARDING, autocast=DType.BF16)
    weight = Parameter("weight", 10, DType.FP32, trainable=True, viewed=viewed)

    y = products.linear(tape, an_input(tape, ONE, DType.FP32), weight, ONE)
    tape.free(y)

    assert tape.ledger.live[Category.GATHERED_WEIGHTS] == sizes.constant(copies * 10 * 2)

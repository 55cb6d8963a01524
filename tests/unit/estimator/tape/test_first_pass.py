"""What backward does to a checkpointed block before it computes the block again."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    cast,
    chain,
    dropout,
    multiply_scalar,
)
from service.estimator.values.dtypes import DType

ELEMENTS = 10


def backward_peak(tail: int, *, probability: float = 0.0) -> int:
    """Return the highest bytes of backward through a block that keeps its input, then casts and
    scales ``tail`` times.
    """
    tape = Tape(Section.FORWARD, Mode.RECORDING)
    numel = sizes.constant(ELEMENTS)
    x = Value(tape.allocate(Category.ACTIVATIONS, sizes.scale(numel, 2)), numel, DType.BF16)
    tape.require_grad(x)

    def block(value: Value) -> Value:
        y = activate_saving_input(tape, value)
        tape.free(value)
        y = chain(tape, y, lambda t, z: dropout(t, z, probability))
        for _ in range(tail):
            y = chain(tape, chain(tape, y, lambda t, z: cast(t, z, DType.FP32)), multiply_scalar)
            y = chain(tape, y, lambda t, z: cast(t, z, DType.BF16))
        return y

    y = tape.checkpoint(block, x)
    tape.ledger.enter(Section.BACKWARD)
    assert y.node is not None
    y.node.grad = tape.scratch(numel, DType.BF16)
    tape.free(y)
    tape.run_backward()
    return max(
        sizes.evaluate(point.bytes, sizes.evaluate_monomials(1, 1))
        for point in tape.ledger.find_peak_candidates()[Section.BACKWARD]
    )


def test_operations_that_kept_nothing_run_first() -> None:
    """Their gradients are there while the block is recomputed; without them only the output's own
    is.
    """
    plain, scaled = backward_peak(0), backward_peak(1)

    assert plain == 3 * 2 * ELEMENTS
    assert scaled == 2 * ELEMENTS + 2 * 4 * ELEMENTS


def test_what_ran_ahead_runs_once() -> None:
    """A second cast and factor adds nothing: each gradient gives way to the next, and nothing is
    left over.
    """
    assert backward_peak(2) == backward_peak(1)


def test_a_mask_that_is_kept_ends_what_runs_ahead() -> None:
    """Dropout needs the mask that its forward made: the block is recomputed before its backward,
    and the mask is dropped.
    """
    assert backward_peak(0, probability=0.1) > backward_peak(0)

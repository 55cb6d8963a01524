"""Reentrant checkpoints: what the second run of a block holds, and what hooks on its input keep."""

from collections.abc import Callable

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.nodes import Value
from service.estimator.tape.offloaded_checkpoint import Checkpoint
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    activate_saving_output,
    multiply_scalar,
)
from service.estimator.tape.ops.products import linear
from service.estimator.tape.reentrant import checkpoint_in_frozen_unit, checkpoint_reentrant
from service.estimator.values.dtypes import DType
from tests.unit.estimator.tape.builders import (
    a_leaf,
    a_tape,
    a_weight,
    an_input,
    live_bytes,
    run_backward,
    stored_gradients,
)

_WIDE = sizes.per_token(10)
_BYTES = 2 * 10
"""Bytes per token of the values here."""


def _kept_and_scaled(tape: Tape) -> Callable[[Value], Value]:
    """Return a block that keeps its input, then scales."""

    def block(value: Value) -> Value:
        y = activate_saving_input(tape, value)
        scaled = multiply_scalar(tape, y)
        tape.free(y, value)
        return scaled

    return block


def _stacked(tape: Tape, checkpoint: Checkpoint, depth: int) -> Value:
    """Return the output of so many blocks; the last one is recorded apart, as it is where units are
    sharded.
    """
    x = tape.repeat(
        depth - 1,
        lambda value: checkpoint(tape, _kept_and_scaled(tape), value),
        a_leaf(tape, _WIDE),
    )
    return checkpoint(tape, _kept_and_scaled(tape), x)


def test_the_output_and_its_gradient_outlive_the_blocks_own_backward() -> None:
    """Beside input and two gradients on their way there are output and its gradient, which a plain
    checkpoint has not.
    """
    tapes = a_tape(), a_tape()
    reentrant = checkpoint_reentrant(tapes[0], _kept_and_scaled(tapes[0]), a_leaf(tapes[0], _WIDE))
    plain = tapes[1].checkpoint(_kept_and_scaled(tapes[1]), a_leaf(tapes[1], _WIDE))

    assert run_backward(tapes[0], reentrant) == 5 * _BYTES
    assert run_backward(tapes[1], plain) == 3 * _BYTES


@pytest.mark.parametrize(
    ("checkpoint", "left"),
    [(Tape.checkpoint, 0), (checkpoint_reentrant, 0), (checkpoint_in_frozen_unit, 2 * _BYTES)],
)
def test_a_hook_on_a_detached_input_keeps_it_and_its_gradient(
    checkpoint: Checkpoint, left: int
) -> None:
    """Two tensors of each block are left when backward is over; without such a hook nothing is."""
    tape = a_tape()
    y = _stacked(tape, checkpoint, 3)
    run_backward(tape, y)
    tape.free(y)

    assert live_bytes(tape)[3] == 3 * left


def test_the_highest_moment_moves_to_the_first_block() -> None:
    """What lingers grows by more than the checkpoints that backward has done with: the last block
    to run sees the most.
    """
    peaks = []
    for depth in (3, 4):
        tape = a_tape()
        y = _stacked(tape, checkpoint_in_frozen_unit, depth)
        peaks.append(run_backward(tape, y) + live_bytes(tape)[3])

    assert peaks[1] - peaks[0] == 2 * _BYTES


def test_a_repeated_block_equals_a_loop_over_blocks() -> None:
    """Recording one block for many leaves the same tensors and the same gradients of weights."""
    closed, unrolled = a_tape(), a_tape()

    def product(tape: Tape, name: str) -> Callable[[Value], Value]:
        weight = a_weight(100, DType.BF16, name=name)

        def block(value: Value) -> Value:
            y = linear(tape, value, weight, _WIDE)
            tape.free(value)
            return y

        return lambda x: checkpoint_reentrant(tape, block, x)

    y = closed.repeat(4, product(closed, "shared"), a_leaf(closed, _WIDE))
    z = a_leaf(unrolled, _WIDE)
    for index in range(4):
        z = product(unrolled, f"block {index}")(z)

    assert run_backward(closed, y) == run_backward(unrolled, z)
    assert live_bytes(closed) == live_bytes(unrolled)
    assert stored_gradients(closed) == stored_gradients(unrolled) == 4 * 100


def test_what_a_block_returns_beside_its_output_gets_zeros_for_a_gradient() -> None:
    """Input, output and its gradient, what is returned, zeros, the block's own gradient of it and
    the sum of both; where it is not returned, the own one and that of the input.
    """
    peaks = []
    for returns in (False, True):
        tape = a_tape()

        def block(value: Value, tape: Tape = tape, *, returns: bool = returns) -> Value:
            weights = activate_saving_output(tape, value)
            y = multiply_scalar(tape, weights)
            tape.free(value)
            if returns and tape.returned is not None:
                tape.returned.append(weights)
            else:
                tape.free(weights)
            return y

        y = checkpoint_reentrant(tape, block, a_leaf(tape, _WIDE))
        peaks.append(run_backward(tape, y))

    assert peaks == [6 * _BYTES, 7 * _BYTES]


def test_the_first_run_finds_gradients_disabled() -> None:
    """Code that asks, as the choice of a kernel does, finds a graph the second time alone."""
    tape, found = a_tape(), list[bool]()

    def block(value: Value) -> Value:
        found.append(tape.enables_grad)
        return multiply_scalar(tape, value)

    run_backward(tape, checkpoint_reentrant(tape, block, a_leaf(tape, _WIDE)))

    assert found == [False, True]


def test_a_checkpoint_without_a_graph_is_the_block() -> None:
    """In inference there is nothing to run again."""
    tape = a_tape(Mode.INFERENCE)
    y = checkpoint_reentrant(tape, lambda value: multiply_scalar(tape, value), an_input(tape))

    assert not y.requires_grad
    assert tape.nodes == []

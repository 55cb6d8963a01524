"""The tape's own rules: references, accumulation, repeated blocks in closed form, checkpointing."""

from collections.abc import Callable

import pytest

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Point, Section
from service.estimator.tape.nodes import Parameter, Value
from service.estimator.tape.ops.elementwise import (
    activate_saving_input,
    add,
    cast,
    multiply,
    multiply_scalar,
)
from service.estimator.tape.ops.products import end_autocast, linear
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
Block = Callable[[Value], Value]


def _block(tape: Tape, weight: Parameter) -> Block:
    """Return a block that keeps tensors, makes a weight gradient and drops its input."""

    def run(x: Value) -> Value:
        hidden = linear(tape, x, weight, _WIDE)
        activated = activate_saving_input(tape, hidden)
        tape.free(hidden)
        y = add(tape, x, activated)
        tape.free(activated, x)
        return y

    return run


def _highest(tape: Tape, y: Value) -> dict[Section, tuple[int, int]]:
    """Run backward and return, per section, the highest bytes per token and the most gradients seen
    at once.
    """
    end_autocast(tape)
    tape.ledger.enter(Section.BACKWARD)
    assert y.node is not None
    y.node.grad = tape.scratch(y.numel, y.dtype)
    tape.run_backward()

    def top(points: tuple[Point, ...]) -> tuple[int, int]:
        at = sizes.evaluate_monomials(1000, 1)
        return max(sizes.evaluate(point.bytes, at) for point in points), max(
            point.gradients for point in points
        )

    return {section: top(points) for section, points in tape.ledger.find_peak_candidates().items()}


@pytest.mark.parametrize("depth", [1, 2, 3, 7])
@pytest.mark.parametrize("checkpointed", [False, True])
@pytest.mark.parametrize("autocast", [None, DType.BF16])
def test_a_repeated_block_equals_a_loop_over_blocks(
    depth: int,
    checkpointed: bool,  # noqa: FBT001 - a case
    autocast: DType | None,
) -> None:
    """Recording one block for many gives the same highest points and the same leftovers as
    recording each of them.
    """
    dtype = DType.BF16 if autocast is None else DType.FP32

    def wrapped(tape: Tape, name: str) -> Block:
        block = _block(tape, a_weight(5000, dtype, name=name))
        return (lambda x: tape.checkpoint(block, x)) if checkpointed else block

    closed = a_tape(autocast=autocast)
    closed_y = closed.repeat(depth, wrapped(closed, "shared"), a_leaf(closed, _WIDE, dtype))
    unrolled = a_tape(autocast=autocast)
    unrolled_y = a_leaf(unrolled, _WIDE, dtype)
    for index in range(depth):
        unrolled_y = wrapped(unrolled, f"block {index}")(unrolled_y)

    assert _highest(closed, closed_y) == _highest(unrolled, unrolled_y)
    assert live_bytes(closed) == live_bytes(unrolled)
    assert stored_gradients(closed) == stored_gradients(unrolled) == depth * 5000


def test_what_no_loss_reads_is_kept_no_longer() -> None:
    """A pooler beside the loss gets no gradient: what it kept is gone once backward is by."""
    tape = a_tape()
    x = an_input(tape, _WIDE)
    pooled = linear(tape, x, a_weight(), _WIDE)
    y = a_leaf(tape, _WIDE)
    tape.free(x, pooled)
    before = live_bytes(tape)

    run_backward(tape, multiply_scalar(tape, y))

    assert before == sizes.scale(_WIDE, 2 * 2)
    assert live_bytes(tape) == sizes.scale(_WIDE, 2 * 2)


def test_checkpointing_keeps_the_input_alone() -> None:
    """A checkpointed block keeps its input; a second one adds as much again."""
    tape = a_tape()
    block = _block(tape, a_weight())
    y = tape.checkpoint(block, tape.checkpoint(block, a_leaf(tape, _WIDE)))

    assert live_bytes(tape) == sizes.scale(_WIDE, 2 * 3)
    assert y.requires_grad


def test_recomputation_stops_when_all_that_was_kept_is_there() -> None:
    """What a block makes after the last tensor that backward needs is not made again."""
    tape = a_tape()
    x = a_leaf(tape, _WIDE)

    def block(value: Value) -> Value:
        y = activate_saving_input(tape, value)
        large = multiply_scalar(tape, y)
        tape.free(y, value)
        return large

    y = tape.checkpoint(block, x)

    assert run_backward(tape, y) == 20 + 20 + 20


def test_a_checkpoint_without_a_graph_is_the_block() -> None:
    """In inference there is nothing to recompute."""
    tape = a_tape(Mode.INFERENCE)
    y = tape.checkpoint(lambda value: multiply_scalar(tape, value), an_input(tape))

    assert not y.requires_grad
    assert tape.nodes == []


def test_a_second_gradient_is_added_in_place() -> None:
    """Two gradients of one tensor need no third one when the first is nobody else's."""
    tape = a_tape()
    x = a_leaf(tape, _WIDE)
    left, right = multiply_scalar(tape, x), multiply_scalar(tape, x)
    y = add(tape, left, right)
    tape.free(x, left, right)

    assert run_backward(tape, y) == 20 + 20 + 20


def test_a_shared_gradient_is_not_changed_in_place() -> None:
    """When the first gradient is still somebody else's, the sum is a new tensor."""
    tape = a_tape()
    x, other = a_leaf(tape, _WIDE), a_leaf(tape, _WIDE)
    scaled = multiply_scalar(tape, x)
    shared = add(tape, x, other)
    y = add(tape, shared, scaled)
    tape.free(x, other, shared, scaled)

    assert run_backward(tape, y) == 20 + 20 + 20


@pytest.mark.parametrize(("uses", "highest"), [(1, 100), (2, 300), (3, 300)])
def test_a_weight_used_more_than_once_adds_its_gradients_out_of_place(
    uses: int, highest: int
) -> None:
    """A linear layer's gradient is a view: a second one cannot be added into it, and a third one
    can be added to the sum.
    """
    tape, weight = a_tape(), a_weight(100)
    ys = [linear(tape, an_input(tape, _WIDE), weight, _WIDE) for _ in range(uses)]
    tape.ledger.enter(Section.BACKWARD)
    for y in ys:
        assert y.node is not None
        y.node.grad = tape.allocate(Category.ACTIVATIONS, sizes.ZERO)
    tape.run_backward()

    points = tape.ledger.find_peak_candidates()[Section.BACKWARD]
    assert max(point.bytes[0] for point in points) == 2 * highest
    assert stored_gradients(tape) == 100


def test_stored_gradients_take_new_ones_in() -> None:
    """In a second micro batch a parameter's gradient exists: the new one is added to it and
    dropped.
    """
    tape, weight = a_tape(accumulating=True), a_weight(100)
    y = linear(tape, a_leaf(tape, _WIDE), weight, _WIDE)
    run_backward(tape, y)

    assert stored_gradients(tape) == 0


def test_collected_gradients_stay_at_full_size() -> None:
    """A sharded unit takes its gradients over before they are stored."""
    tape, weight = a_tape(), a_weight(100)
    tape.collected_gradients = []
    y = linear(tape, a_leaf(tape, _WIDE), weight, _WIDE)
    run_backward(tape, y)

    assert [storage.size for storage in tape.collected_gradients] == [sizes.constant(200)]
    assert stored_gradients(tape) == 0


def test_a_gradient_for_a_tensor_that_needs_none_is_dropped() -> None:
    """Nothing made it, so nothing waits for its gradient."""
    tape = a_tape()
    x, constant = a_leaf(tape), an_input(tape)
    y = multiply_scalar(tape, x)
    tape.send(constant, tape.scratch(constant.numel, constant.dtype))
    run_backward(tape, y)
    tape.free(x, constant, y)

    assert live_bytes(tape) == sizes.ZERO


def test_a_hook_runs_when_backward_comes_by() -> None:
    """Between the nodes around it, whether a gradient arrives there or not."""
    tape, seen = a_tape(), []
    x = a_leaf(tape)
    tape.hook(lambda: seen.append("hook"))
    run_backward(tape, multiply_scalar(tape, x))

    assert seen == ["hook"]


def test_a_hook_without_a_graph_never_runs() -> None:
    """Inference has no backward."""
    tape = a_tape(Mode.INFERENCE)
    tape.hook(lambda: None)

    assert tape.nodes == []


def test_a_required_gradient_keeps_the_tensor_and_stays() -> None:
    """A leaf that was told to need a gradient lives as long as the graph, and its gradient is not
    dropped.
    """
    tape = a_tape()
    x = an_input(tape, _WIDE)
    tape.require_grad(x)
    y = multiply_scalar(tape, x)
    tape.free(x)
    before = live_bytes(tape)
    run_backward(tape, y)

    assert before == sizes.scale(_WIDE, 2 * 2)
    assert live_bytes(tape) == sizes.scale(_WIDE, 2 * 3)


def test_a_freed_tensor_can_be_revived_for_an_outer_name() -> None:
    """Repeated blocks free their input; an outer name that kept the first one counts it as alive
    since then.
    """
    tape = a_tape()
    x = an_input(tape, _WIDE)
    first, mark = x.storage, tape.ledger.mark()
    y = tape.repeat(2, _block(tape, a_weight()), x)
    assert first is not None
    lower = live_bytes(tape)

    tape.revive(mark, first)

    assert sizes.subtract(live_bytes(tape), lower) in {sizes.ZERO, sizes.scale(_WIDE, 2)}
    assert first.references >= 1
    assert y.requires_grad


def _product_of_two_formats(tape: Tape) -> Block:
    """Return a block that multiplies its input by itself in fp32: one of the gradients is cast
    back.
    """

    def block(x: Value) -> Value:
        wide = cast(tape, x, DType.FP32)
        y = multiply(tape, wide, x)
        tape.free(wide, x)
        return y

    return block


def test_a_checkpoint_forgets_a_tensor_once_the_formula_has_it() -> None:
    """Both gradients (2 x 40) are made beside the incoming one (40) and both factors (20, 40); the
    cast (20) comes later.
    """
    plain, checkpointed = a_tape(), a_tape()
    y = _product_of_two_formats(plain)(a_leaf(plain, _WIDE))
    again = checkpointed.checkpoint(
        _product_of_two_formats(checkpointed), a_leaf(checkpointed, _WIDE)
    )

    assert run_backward(plain, y) == 2 * 40 + 40 + 20 + 40 + 20
    assert run_backward(checkpointed, again) == 2 * 40 + 40 + 20 + 40

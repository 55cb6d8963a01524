"""A tape and values on it; every size is one element per token unless a test says otherwise."""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Mode, Tape
from service.estimator.tape.ledger import Category, Section
from service.estimator.tape.nodes import Node, Parameter, Value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

ONE = sizes.per_token(1)


def a_tape(
    mode: Mode = Mode.RECORDING, *, autocast: DType | None = None, accumulating: bool = False
) -> Tape:
    """Return an empty tape in its forward section."""
    return Tape(Section.FORWARD, mode, autocast=autocast, accumulating=accumulating)


def a_leaf(tape: Tape, numel: Size = ONE, dtype: DType = DType.BF16) -> Value:
    """Return a tensor that needs a gradient and drops it."""
    value = an_input(tape, numel, dtype)
    value.node = tape.append(Node([], lambda _: None))
    value.requires_grad = True
    return value


def an_input(tape: Tape, numel: Size = ONE, dtype: DType = DType.BF16) -> Value:
    """Return a tensor without a gradient."""
    return Value(
        tape.allocate(Category.ACTIVATIONS, sizes.scale(numel, dtype.bytes_per_element)),
        numel,
        dtype,
    )


def a_weight(
    numel: int = 10, dtype: DType = DType.BF16, *, name: str = "weight", trainable: bool = True
) -> Parameter:
    """Return a parameter."""
    return Parameter(name, numel, dtype, trainable=trainable)


def live_bytes(tape: Tape) -> Size:
    """Return what is alive, stored gradients left out."""
    return sizes.total(
        size for category, size in tape.ledger.live.items() if category is not Category.GRADIENTS
    )


def stored_gradients(tape: Tape) -> int:
    """Return the elements of stored gradients."""
    return tape.ledger.live.get(Category.GRADIENTS, sizes.ZERO)[0]


def run_backward(tape: Tape, y: Value) -> int:
    """Send a gradient into ``y``, run backward, and return the highest bytes per token above what
    is left at the end.
    """
    tape.ledger.enter(Section.BACKWARD)
    assert y.node is not None
    y.node.grad = tape.scratch(y.numel, y.dtype)
    tape.run_backward()
    highest = max(point.bytes[3] for point in tape.ledger.find_peak_candidates()[Section.BACKWARD])
    return highest - live_bytes(tape)[3]

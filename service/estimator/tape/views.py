"""Slices and concatenations: what a slice's gradient costs, and rotary positions on a part of a head."""

from service.estimator.dtypes import DType
from service.estimator.tape import sizes
from service.estimator.tape.elementwise import rotate
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.sizes import Size


def narrow(tape: Tape, x: Value, numel: Size) -> Value:
    """Return a slice of ``x``, a view: its gradient is put into zeros of the size of ``x``."""
    view = Value(x.storage, numel, x.dtype)
    tape.hold_value(view)
    if tape.records and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def concatenate(tape: Tape, parts: tuple[Value, ...]) -> Value:
    """Return the parts in one tensor; each gets a view of its gradient."""

    def backward(grad: Storage) -> None:
        for part in parts:
            if part.requires_grad:
                tape.send(part, tape.hold(grad), is_view=True)

    numel = sizes.total(part.numel for part in parts)
    return tape.emit(numel, parts[0].dtype, inputs=parts, backward=backward)


def rotate_part(tape: Tape, x: Value, rotary: Size, table: DType) -> Value:
    """Return ``x`` with the first ``rotary`` of its elements rotated and the others passed (GPT-NeoX, partial rotary)."""
    if rotary == x.numel:
        return rotate(tape, x, table)
    turning, passing = narrow(tape, x, rotary), narrow(tape, x, sizes.subtract(x.numel, rotary))
    turned = rotate(tape, turning, table)
    y = concatenate(tape, (turned, passing))
    tape.free(turning, passing, turned)
    return y

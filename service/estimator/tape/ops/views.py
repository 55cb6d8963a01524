"""Slices, concatenations and in-place operations.

Gradients of slices have their cost here, and rotary positions on a part of a head.
"""

from collections.abc import Sequence

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Value, Work, count_bytes
from service.estimator.tape.ops.elementwise import cast, rotate
from service.estimator.tape.ops.products import allocate_integers
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType


def narrow(tape: Tape, x: Value, numel: Size) -> Value:
    """Return a slice of ``x``, a view.

    Its gradient is put into zeros of the size of ``x``, or handed on where the slice is all of it
    (torch ``applySlice``: an alias).
    """
    view = Value(x.storage, numel, x.dtype)
    tape.hold_value(view)

    def backward(grad: Storage) -> None:
        tape.send(x, tape.hold(grad) if numel == x.numel else tape.scratch(x.numel, x.dtype))

    if tape.builds_graph and x.requires_grad:
        view.node = tape.append(Node([], backward))
        view.requires_grad = True
    return view


def expand(tape: Tape, x: Value, numel: Size) -> Value:
    """Return a view of ``x`` that repeats it.

    Its gradient is summed back where it is there more than once.
    """
    view = Value(x.storage, numel, x.dtype)
    tape.hold_value(view)

    def backward(grad: Storage) -> None:
        is_full = x.numel == numel
        tape.send(x, tape.hold(grad) if is_full else tape.scratch(x.numel, x.dtype))

    if tape.builds_graph and x.requires_grad:
        view.node, view.requires_grad = tape.append(Node([], backward)), True
    return view


def rearrange(tape: Tape, x: Value) -> Value:
    """Return ``x`` cut or ordered in another way, a view.

    Its gradient is put together anew.
    """
    view = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(view)
    if tape.builds_graph and x.requires_grad:
        view.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        view.requires_grad = True
    return view


def concatenate(tape: Tape, parts: tuple[Value, ...]) -> Value:
    """Return the parts in one tensor, in the widest of their dtypes.

    Each gets a view of its gradient, or a cast of it.
    """

    def backward(grad: Storage) -> None:
        for part in parts:
            if part.requires_grad and part.dtype is dtype:
                tape.send(part, tape.hold(grad), is_view=True)
            elif part.requires_grad:
                tape.send(part, tape.scratch(part.numel, part.dtype))

    dtype = DType.FP32 if any(part.dtype is DType.FP32 for part in parts) else parts[0].dtype
    numel = sizes.total(part.numel for part in parts)
    return tape.emit(numel, dtype, inputs=parts, backward=backward)


def concatenate_promoted(tape: Tape, parts: tuple[Value, ...]) -> Value:
    """Return the parts in one tensor of their widest dtype.

    Autocast casts them to it first; without it the kernel does.
    """
    if tape.autocast is None:
        return concatenate(tape, parts)
    dtype = DType.FP32 if any(part.dtype is DType.FP32 for part in parts) else parts[0].dtype
    sources = tuple(cast(tape, part, dtype) for part in parts)
    joined = concatenate(tape, sources)
    tape.free(*sources)
    return joined


def rotate_part(tape: Tape, x: Value, rotary: Size, table: DType) -> Value:
    """Return ``x`` with its first ``rotary`` elements rotated.

    The others pass (GPT-NeoX, partial rotary).
    """
    if rotary == x.numel:
        return rotate(tape, x, table)
    turning, passing = narrow(tape, x, rotary), narrow(tape, x, sizes.subtract(x.numel, rotary))
    turned = rotate(tape, turning, table)
    y = concatenate_promoted(tape, (turned, passing))
    tape.free(turning, passing, turned)
    return y


def rotate_parts(
    tape: Tape, sides: tuple[Value, Value], rotary: Sequence[Size], table: DType
) -> tuple[Value, Value]:
    """Return query and key with their first ``rotary`` elements rotated.

    Both are rotated before either is joined with what passes (GPT-NeoX).
    """
    query, key = sides
    if rotary[0] == query.numel:
        return rotate(tape, query, table), rotate(tape, key, table)
    parts = [
        (narrow(tape, x, size), narrow(tape, x, sizes.subtract(x.numel, size)))
        for x, size in zip(sides, rotary, strict=True)
    ]
    turned = [rotate(tape, turning, table) for turning, _ in parts]
    joined = []
    for rotated, (_, passing) in zip(turned, parts, strict=True):
        joined.append(concatenate_promoted(tape, (rotated, passing)))
        tape.free(rotated)
    tape.free(*(view for pair in parts for view in pair))
    return joined[0], joined[1]


def copy_indexed(tape: Tape, x: Value, numel: Size) -> Value:
    """Return ``x[..., [i], :]``, a copy, since the index is a list.

    Its gradient is put into zeros of the size of ``x``. The list becomes a tensor on the host,
    which is copied (torch ``python_variable_indexing.cpp``, ``sequenceToVariable``).
    """
    index = allocate_integers(tape, sizes.constant(1))
    y = tape.emit(
        numel,
        x.dtype,
        inputs=(x,),
        saves=(index,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    tape.free(index)
    return y


def note_change_in_place(tape: Tape, x: Value, *read: Value) -> None:
    """Note a kernel that changes ``x`` where it lies.

    Others it ``read`` alone. It makes no tensor, so that no bytes tell of it.
    """
    size = count_bytes(x.numel, x.dtype)
    operands = (count_bytes(value.numel, value.dtype) for value in read)
    tape.note_kernels(Work.MOVE, sizes.total((size, size, *operands)), ())


def add_in_place(tape: Tape, x: Value, other: Value) -> Value:
    """Return ``x += other``, another name of the same tensor.

    Both get its gradient, cast where ``other`` is wider.
    """
    note_change_in_place(tape, x, other)

    def backward(grad: Storage) -> None:
        for side in (x, other):
            if side.requires_grad:
                tape.send(
                    side,
                    tape.hold(grad)
                    if side.dtype is x.dtype
                    else tape.scratch(side.numel, side.dtype),
                )

    y = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(y)
    if tape.builds_graph and (x.requires_grad or other.requires_grad):
        y.node = tape.append(Node([], backward))
        y.requires_grad = True
    return y


def scale_in_place(tape: Tape, x: Value) -> Value:
    """Return ``x /= c``, another name of the same tensor.

    Its gradient is scaled anew.
    """
    note_change_in_place(tape, x)
    y = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(y)
    if tape.builds_graph and x.requires_grad:
        y.node = tape.append(Node([], lambda _: tape.send(x, tape.scratch(x.numel, x.dtype))))
        y.requires_grad = True
    return y


def apply_composite(tape: Tape, x: Value, *, forward: str, backward: str) -> Value:
    """Return the output of an autograd function that keeps its input.

    Each direction is written as what it makes and drops, all of its size: ``a b -a`` makes two, and
    drops the first. What stands last stays until the result is there.
    """

    def run_backward(_: Storage) -> None:
        inner = _run_composite(tape, x, backward)
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*inner)
        tape.send(x, grad)

    inner = _run_composite(tape, x, forward)
    y = tape.emit(x.numel, x.dtype, inputs=(x,), saves=(x,), backward=run_backward)
    tape.release(*inner)
    return y


def _run_composite(tape: Tape, x: Value, steps: str) -> list[Storage]:
    """Return the tensors that are left of those that the steps make."""
    tensors: dict[str, Storage] = {}
    for step in steps.split():
        if step.startswith("-"):
            tape.release(tensors.pop(step[1:]))
        else:
            tensors[step] = tape.scratch(x.numel, x.dtype)
    return list(tensors.values())


def clamp_in_place(tape: Tape, x: Value) -> Value:
    """Return ``x`` clamped in its own storage.

    Backward needs a copy of what was there, and makes two masks.
    """
    note_change_in_place(tape, x)
    if not (tape.builds_graph and x.requires_grad):
        return x
    original = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(x.numel, x.dtype)), x.numel, x.dtype
    )
    saved: list[Storage] = []
    tape.save(saved, [original])

    def backward(_: Storage) -> None:
        masks = [tape.allocate(Category.TEMPORARIES, x.numel) for _ in range(2)]
        grad = tape.scratch(x.numel, x.dtype)
        tape.release(*masks)
        tape.send(x, grad)

    y = Value(x.storage, x.numel, x.dtype, tape.append(Node(saved, backward)))
    tape.free(original)
    return y

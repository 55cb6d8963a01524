"""Kernels of Liger and Unsloth, each with a backward of its own.

liger-kernel 0.8, ``liger_kernel/ops/{rms_norm,rope,swiglu,geglu}.py``; unsloth 2026.10,
``kernels/{rms_layernorm,rope_embedding,qk_norm_rope}.py``. Most write a gradient over what they
read.
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Node, Parameter, Value, as_value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

NUM_PROGRAMS = 132
"""Partial sums of a norm's weight gradient, one for each multiprocessor: those of an H100 or H200.
"""


def normalise_in_kernel(
    tape: Tape, x: Value, weight: Parameter, rows: Size, *, in_place: bool
) -> Value:
    """Return a root-mean-square norm in one kernel.

    It keeps its input and one fp32 per row. ``in_place``: the gradient is written over that of the
    output.
    """
    scale = as_value(weight)
    inverse = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(rows, DType.FP32)), rows, DType.FP32
    )

    def backward(grad: Storage) -> None:
        partial = None
        if scale.requires_grad:
            partial = tape.scratch(sizes.scale(scale.numel, NUM_PROGRAMS), DType.FP32)
        if x.requires_grad:
            tape.send(x, tape.hold(grad) if in_place else tape.scratch(x.numel, x.dtype))
        if partial is not None:
            tape.send(scale, tape.scratch(scale.numel, scale.dtype))
            tape.release(partial)

    y = tape.emit(x.numel, x.dtype, inputs=(x, scale), saves=(x, inverse), backward=backward)
    tape.free(inverse)
    return y


def rotate_in_place(tape: Tape, x: Value) -> Value:
    """Return query or key rotated where it lies.

    So is its gradient. ``x`` stays with the caller.
    """
    rotated = Value(x.storage, x.numel, x.dtype)
    tape.hold_value(rotated)
    if tape.builds_graph and x.requires_grad:
        rotated.node = tape.append(
            Node([], lambda grad: tape.send(x, tape.hold(grad)), needs_only_grad=True)
        )
        rotated.requires_grad = True
    return rotated


def rotate_into_copy(tape: Tape, x: Value) -> Value:
    """Return query or key rotated in another tensor.

    So is its gradient (Unsloth's ``Fast_RoPE_Embedding_QK``, of heads that do not lie one after
    another). ``x`` stays with the caller.
    """
    return tape.emit(
        x.numel,
        x.dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def normalise_and_rotate(tape: Tape, x: Value, weight: Parameter, rows: Size) -> Value:
    """Return a query's or key's heads normalised and rotated by one kernel.

    It keeps its input and one fp32 per head (Unsloth's ``Fast_QK_Norm_RoPE``). ``x`` stays with the
    caller.
    """
    inverse = Value(
        tape.allocate(Category.ACTIVATIONS, count_bytes(rows, DType.FP32)), rows, DType.FP32
    )
    y = tape.emit(
        x.numel,
        x.dtype,
        inputs=(x, as_value(weight)),
        saves=(x, inverse),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )
    tape.free(inverse)
    return y


def multiply_activated(tape: Tape, gate: Value, up: Value) -> Value:
    """Return ``act(gate) * up``, of which backward computes the activation again.

    Both gradients are written over what was kept.
    """

    def backward(_: Storage) -> None:
        for side in (gate, up):
            if side.requires_grad and side.storage is not None:
                tape.send(side, tape.hold(side.storage))

    return tape.emit(gate.numel, gate.dtype, inputs=(gate, up), saves=(gate, up), backward=backward)

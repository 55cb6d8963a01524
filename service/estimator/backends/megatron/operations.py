"""Megatron Core and Transformer Engine operations on one rank.

What they keep for backward and allocate there. Weights get their gradients added into persistent
fp32 buffers by the product itself (``gradient_accumulation_fusion``), so no gradient of a weight is
a tensor of its own, but for the embedding's and the head's (see placeholders). Sources:
megatron/core (tensor_parallel/layers.py, fusions/*, transformer/*), transformer_engine/pytorch
(module/layernorm_linear.py, module/linear.py, attention/*).
"""

from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Category, Storage
from service.estimator.tape.nodes import Value, count_bytes
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType

BF16 = DType.BF16


def tokens(width: int) -> Size:
    """Return ``width`` elements for each token of this rank."""
    return sizes.per_token(width)


def allocate_saved(tape: Tape, size: Size) -> Value:
    """Allocate a tensor that an operation keeps for its backward.

    ``size`` is its size in bytes.
    """
    return Value(tape.allocate(Category.ACTIVATIONS, size), size, DType.FP8)


def apply_norm(tape: Tape, x: Value, statistics: int) -> Value:
    """Record a fused norm.

    It keeps its input and fp32 ``statistics``, so many bytes per token.
    """
    stats = allocate_saved(tape, tokens(statistics))
    y = tape.emit(
        x.numel,
        BF16,
        inputs=(x,),
        saves=(x, stats),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)),
    )
    tape.free(stats)
    return y


def column_linear(tape: Tape, x: Value, out: int, *, sequence_shards: int) -> Value:
    """Record a column-parallel product, which keeps its input.

    With sequence parallelism the input is gathered again in backward.
    """
    full_numel = sizes.scale(x.numel, sequence_shards)

    def backward(_: Storage) -> None:
        gathered_input = [tape.scratch(full_numel, BF16)] if sequence_shards > 1 else []
        grad = tape.scratch(full_numel, BF16)
        if sequence_shards > 1:
            reduced = tape.scratch(x.numel, BF16)
            tape.release(grad, *gathered_input)
            grad = reduced
        tape.send(x, grad)

    gathered = [tape.scratch(full_numel, BF16)] if sequence_shards > 1 else []
    y = tape.emit(tokens(out), BF16, inputs=(x,), saves=(x,), backward=backward)
    tape.release(*gathered)
    return y


def row_linear(tape: Tape, x: Value, out: int, *, sequence_shards: int) -> Value:
    """Record a row-parallel product, which keeps its input.

    Sums are taken in place, or scattered over the sequence.
    """

    def backward(_: Storage) -> None:
        gathered = [tape.scratch(tokens(out), BF16)] if sequence_shards > 1 else []
        grad = tape.scratch(x.numel, BF16)
        tape.release(*gathered)
        tape.send(x, grad)

    partial = [tape.scratch(tokens(out), BF16)] if sequence_shards > 1 else []
    y = tape.emit(tokens(out // sequence_shards), BF16, inputs=(x,), saves=(x,), backward=backward)
    tape.release(*partial)
    return y


def bias_dropout_add(tape: Tape, x: Value, residual: Value, probability: float) -> Value:
    """Record ``residual + dropout(x + bias)`` by one kernel.

    A mask of one byte per element is kept when there is dropout.
    """
    masks = [allocate_saved(tape, x.numel)] if probability else []

    def backward(grad: Storage) -> None:
        tape.send(residual, tape.hold(grad))
        tape.send(x, tape.scratch(x.numel, BF16) if probability else tape.hold(grad))

    y = tape.emit(x.numel, BF16, inputs=(x, residual), saves=masks, backward=backward)
    tape.free(*masks)
    return y


def apply_activation(tape: Tape, x: Value, out: Size, *weights: Value) -> Value:
    """Record a fused activation with its bias or its gate.

    It keeps its input, and ``weights`` (fusions/fused_bias_swiglu.py).
    """
    return tape.emit(
        out,
        BF16,
        inputs=(x,),
        saves=(x, *weights),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)),
    )


def rearrange(tape: Tape, x: Value, out: Size) -> Value:
    """Record a rearrangement of ``x``, which is dropped.

    It keeps nothing: rows are sorted, sent, gathered or put back.
    """
    y = tape.emit(
        out, BF16, inputs=(x,), backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16))
    )
    tape.free(x)
    return y


def record_cross_entropy(tape: Tape, logits: Value, *, fused: bool) -> Value:
    """Record the vocabulary-parallel cross entropy.

    An fp32 copy of the logits becomes their softmax and then their gradient
    (tensor_parallel/cross_entropy.py: subtraction, exponent and gradient are in place; autograd
    casts the gradient back). ``fused`` is Transformer Engine's: the gradient takes the place of the
    logits in forward.
    """

    def in_place(_: Storage) -> None:
        assert logits.storage is not None  # noqa: S101 - the head made it
        tape.send(logits, tape.hold(logits.storage))

    def composed(_: Storage) -> None:
        tape.send(logits, tape.allocate(Category.LOGITS, count_bytes(logits.numel, BF16)))

    if fused:
        return tape.emit(
            tokens(1), DType.FP32, inputs=(logits,), saves=(logits,), backward=in_place
        )
    softmax = Value(
        tape.allocate(Category.LOGITS, count_bytes(logits.numel, DType.FP32)),
        logits.numel,
        DType.FP32,
    )
    loss = tape.emit(tokens(1), DType.FP32, inputs=(logits,), saves=(softmax,), backward=composed)
    tape.free(softmax)
    return loss

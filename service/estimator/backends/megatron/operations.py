"""Megatron Core and Transformer Engine operations on one rank.

What they keep for backward and allocate there. Where products add the gradients of weights into
persistent buffers themselves (``gradient_accumulation_fusion``), no gradient of a weight is a
tensor of its own but the embedding's (see placeholders); else each is one until it is added.
Sources:
megatron/core (tensor_parallel/layers.py, fusions/*, transformer/*), transformer_engine/pytorch
(module/layernorm_linear.py, module/linear.py, attention/*).
"""

from dataclasses import dataclass

from service.estimator.backends.megatron.shape import RankShape, Switches
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Products:
    """Inputs of a rank's products, and gradients of their weights."""

    sequence_shards: int
    buffered: bool
    """Whether what is gathered lies in a buffer that stays."""
    fuses_gradients: bool

    @property
    def gathers(self) -> bool:
        """Whether an input is gathered into a tensor of its own."""
        return self.sequence_shards > 1 and not self.buffered

    def pass_gradient(self, tape: Tape, num_elements: int) -> None:
        """Make the gradient of a weight, which is added and dropped."""
        if not self.fuses_gradients:
            tape.release(tape.scratch(sizes.constant(num_elements), BF16))


def build_products(shape: RankShape, switches: Switches) -> Products:
    """Return how products of a rank's layers run."""
    return Products(
        sequence_shards=shape.sequence_shards,
        buffered=switches.local,
        fuses_gradients=switches.fuses_gradients,
    )


def column_linear(tape: Tape, x: Value, out: int, products: Products) -> Value:
    """Record a column-parallel product, which keeps its input.

    With sequence parallelism the input is gathered again in backward.
    """
    shards = products.sequence_shards
    full_numel = sizes.scale(x.numel, shards)

    def backward(_: Storage) -> None:
        gathered_input = [tape.scratch(full_numel, BF16)] if products.gathers else []
        grad = tape.scratch(full_numel, BF16)
        full = [grad, *gathered_input] if shards > 1 else []
        if shards > 1:
            grad = tape.scratch(x.numel, BF16)
        products.pass_gradient(tape, out * full_numel[3])
        tape.release(*full)
        tape.send(x, grad)

    gathered = [tape.scratch(full_numel, BF16)] if products.gathers else []
    y = tape.emit(tokens(out), BF16, inputs=(x,), saves=(x,), backward=backward)
    tape.release(*gathered)
    return y


def row_linear(tape: Tape, x: Value, out: int, products: Products) -> Value:
    """Record a row-parallel product, which keeps its input.

    Sums are taken in place, or scattered over the sequence.
    """
    shards = products.sequence_shards

    def backward(_: Storage) -> None:
        gathered = [tape.scratch(tokens(out), BF16)] if shards > 1 else []
        grad = tape.scratch(x.numel, BF16)
        products.pass_gradient(tape, out * x.numel[3])
        tape.release(*gathered)
        tape.send(x, grad)

    partial = [tape.scratch(tokens(out), BF16)] if shards > 1 else []
    y = tape.emit(tokens(out // shards), BF16, inputs=(x,), saves=(x,), backward=backward)
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


def record_cross_entropy(tape: Tape, logits: Value, switches: Switches) -> Value:
    """Record the vocabulary-parallel cross entropy.

    An fp32 copy of the logits becomes their softmax and then their gradient
    (tensor_parallel/cross_entropy.py: subtraction, exponent and gradient are in place; autograd
    casts the gradient back). Of Transformer Engine's fused one the gradient takes the place of the
    logits in forward. What torch.compile makes of Megatron Core's (fusions/fused_cross_entropy.py,
    ``calculate_gradients``) copies the softmax before one element of each row is changed in it: the
    one allocation of fp32 logits in inductor's code of torch 2.13.
    """

    def in_place(_: Storage) -> None:
        assert logits.storage is not None  # noqa: S101 - the head made it
        tape.send(logits, tape.hold(logits.storage))

    def composed(_: Storage) -> None:
        wide = count_bytes(logits.numel, DType.FP32)
        copies = [tape.allocate(Category.LOGITS, wide)] if switches.copied_softmax else []
        grad = tape.allocate(Category.LOGITS, count_bytes(logits.numel, BF16))
        tape.release(*copies)
        tape.send(logits, grad)

    if switches.fused_loss:
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

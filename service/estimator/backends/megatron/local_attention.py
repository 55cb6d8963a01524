"""Attention of Megatron Core's own layers, ``--transformer-impl local``.

Scores are made whole (core/transformer/dot_product_attention.py). Their products write into a
buffer of all layers, whose result is a tensor of its own: ``torch.baddbmm`` is not in place.
Softmax is one kernel with scale and mask (core/fusions/fused_softmax.py), or torch's.
"""

from service.estimator.backends.megatron.attention import CoreAttention
from service.estimator.backends.megatron.operations import (
    BF16,
    allocate_saved,
    rearrange,
    tokens,
)
from service.estimator.backends.megatron.shape import RankShape, Switches
from service.estimator.tape import sizes
from service.estimator.tape.graph import Tape
from service.estimator.tape.ledger import Storage
from service.estimator.tape.nodes import Node, Value
from service.estimator.tape.sizes import Size
from service.estimator.values.dtypes import DType
from service.estimator.values.workload import Checkpointing


def arrange_heads(tape: Tape, fused: Value, shape: RankShape) -> Value:
    """Return query, key and value as the scores' products read them.

    They are views of one tensor, which is dropped where heads share keys: keys and values are
    repeated, and the query is laid out anew.
    """
    if shape.query == shape.key:
        return fused
    return rearrange(tape, fused, tokens(3 * shape.query))


def attend_locally(
    tape: Tape, fused: Value, shape: RankShape, core: CoreAttention, switches: Switches
) -> Value:
    """Record attention over whole scores and return what queries read."""

    def attend(value: Value) -> Value:
        return _attend(tape, value, shape, core, switches)

    recomputes = switches.checkpointing is Checkpointing.SELECTIVE
    return tape.checkpoint(attend, fused) if recomputes else attend(fused)


def _attend(
    tape: Tape, fused: Value, shape: RankShape, core: CoreAttention, switches: Switches
) -> Value:
    turned = _turn_heads(tape, shape)
    query_and_key, value = _split_heads(tape, fused, core)
    scores = tape.emit(
        core.scores,
        BF16,
        inputs=(query_and_key,),
        saves=(fused, *turned),
        backward=lambda _: _send_scaled(tape, query_and_key, core),
    )
    tape.free(*turned)
    probabilities = _normalise(tape, scores, switches)
    if core.dropout:
        dropped = _drop(tape, probabilities)
        tape.free(probabilities)
        probabilities = dropped
    read = _multiply(tape, probabilities, value, fused, core.output)
    y = tape.emit(
        read.numel, BF16, inputs=(read,), backward=lambda grad: tape.send(read, tape.hold(grad))
    )
    tape.free(read, probabilities, scores, query_and_key, value)
    return y


def _turn_heads(tape: Tape, shape: RankShape) -> list[Value]:
    """Return rotated queries and keys.

    They are beside the tensor that the value is a view of.
    """
    if shape.learned_positions or shape.query != shape.key:
        return []
    return [allocate_saved(tape, tokens(BF16.bytes_per_element * (shape.query + shape.key)))]


def _split_heads(tape: Tape, fused: Value, core: CoreAttention) -> tuple[Value, Value]:
    """Return query with key, and value, whose gradients are joined."""
    waiting: list[Storage] = []

    def join(_: Storage) -> None:
        tape.send(fused, tape.scratch(fused.numel, BF16))
        tape.release(*waiting)

    def wait(grad: Storage) -> None:
        waiting.append(tape.hold(grad))

    value = tokens(core.output)
    return (
        _view(tape, fused, sizes.subtract(fused.numel, value), Node([], join)),
        _view(tape, fused, value, Node([], wait)),
    )


def _view(tape: Tape, x: Value, numel: Size, node: Node) -> Value:
    y = tape.alias(x)
    return Value(y.storage, numel, x.dtype, tape.append(node))


def _send_scaled(tape: Tape, query_and_key: Value, core: CoreAttention) -> None:
    """Send the gradients of query and key.

    Each was scaled into a second tensor.
    """
    grad = tape.scratch(query_and_key.numel, BF16)
    tape.release(tape.scratch(sizes.subtract(query_and_key.numel, tokens(core.query)), BF16))
    tape.send(query_and_key, grad)


def _normalise(tape: Tape, scores: Value, switches: Switches) -> Value:
    """Return the probabilities.

    The kernel's backward is in place. Else scores may be made fp32, are masked in place, and what
    is fp32 of them is made 16 bits again (``forward_torch_softmax``).
    """
    if switches.fused_softmax:
        return tape.emit(
            scores.numel,
            BF16,
            inputs=(scores,),
            saves_output=True,
            backward=lambda grad: tape.send(scores, tape.hold(grad)),
        )
    dtype = DType.FP32 if switches.fp32_softmax else BF16
    wide = _cast(tape, scores, dtype) if switches.fp32_softmax else tape.alias(scores)
    masked = _view(
        tape,
        wide,
        wide.numel,
        Node([], lambda _: tape.send(wide, tape.scratch(wide.numel, dtype))),
    )
    softmax = tape.emit(
        masked.numel,
        dtype,
        inputs=(masked,),
        saves_output=True,
        backward=lambda _: tape.send(masked, tape.scratch(masked.numel, dtype)),
    )
    if not switches.fp32_softmax:
        tape.free(wide, masked)
        return softmax
    narrow = _cast(tape, softmax, BF16)
    tape.free(wide, masked, softmax)
    return narrow


def _cast(tape: Tape, x: Value, dtype: DType) -> Value:
    return tape.emit(
        x.numel,
        dtype,
        inputs=(x,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, x.dtype)),
    )


def _drop(tape: Tape, x: Value) -> Value:
    """Return what dropout leaves, whose mask is kept."""
    mask = allocate_saved(tape, x.numel)
    y = tape.emit(
        x.numel,
        BF16,
        inputs=(x,),
        saves=(mask,),
        backward=lambda _: tape.send(x, tape.scratch(x.numel, BF16)),
    )
    tape.free(mask)
    return y


def _multiply(tape: Tape, probabilities: Value, value: Value, fused: Value, out: int) -> Value:
    """Return the values that queries read."""

    def backward(_: Storage) -> None:
        tape.send(probabilities, tape.scratch(probabilities.numel, BF16))
        tape.send(value, tape.scratch(value.numel, BF16))

    return tape.emit(
        tokens(out),
        BF16,
        inputs=(probabilities, value),
        saves=(probabilities, fused),
        backward=backward,
    )
